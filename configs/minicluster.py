"""ReFrame on a minicluster that `nimc minicluster up` has started on this host."""

import os
import sys
from pathlib import Path

from campaigns.minicluster.layout import default_state

BIN = Path(sys.executable).parent
STATE = Path(os.environ.setdefault("NIMC_MINICLUSTER", str(default_state())))
if (STATE / "slurm.conf").exists():  # a missing one keeps Slurm's commands waiting for a minute
    os.environ["SLURM_CONF"] = str(STATE / "slurm.conf")

site_configuration = {
    "systems": [
        {
            "name": "minicluster",
            "descr": "a Slurm cluster on this host: emulation, never for absolute figures",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "compute",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=compute"],
                    "environs": ["wheels"],
                    "max_jobs": 1,
                    "time_limit": "20m",
                    "sched_options": {"use_nodes_option": True},
                    "env_vars": [["PATH", f"{BIN}:$PATH"], ["SLURM_MPI_TYPE", "pmi2"]],
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
        }
    ],
    # The end of a job is seen at most a second late.
    "general": [{"resolve_module_conflicts": False, "remote_detect": False, "poll_rate_min": 1.0}],
}
