"""ReFrame on this host: the local scheduler, and programs from wheels, PATH and Spack."""

import sys
from pathlib import Path

from reframe_tests.logs import LOGGING

BIN = Path(sys.executable).parent

site_configuration = {
    "systems": [
        {
            "name": "localhost",
            "descr": "this host; origin and target share it",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "default",
                    "scheduler": "local",
                    "launcher": "mpiexec",
                    "environs": ["wheels", "spack"],
                    "max_jobs": 1,
                    "env_vars": [
                        ["PATH", f"{BIN}:$PATH"],
                        # By default, Open MPI binds one or two processes to the host's first cores,
                        # even if it was started on other cores. Version 5 reads the PRTE variable.
                        ["OMPI_MCA_hwloc_base_binding_policy", "none"],
                        ["PRTE_MCA_hwloc_default_binding_policy", "none"],
                    ],
                }
            ],
        }
    ],
    "environments": [
        {
            "name": "wheels",
            "cc": "cc",
            "cxx": "c++",
            "ftn": "",
            "features": ["wheels"],
            "target_systems": ["*"],
        },
        {
            "name": "spack",
            # Spack has its own compilers.
            "cc": "",
            "cxx": "",
            "ftn": "",
            "features": ["spack"],
            "target_systems": ["*"],
        },
    ],
    # The end of a block is noticed at most a second late; by default, a tenth of its length.
    "general": [{"resolve_module_conflicts": False, "remote_detect": False, "poll_rate_min": 1.0}],
    "logging": LOGGING,
}
