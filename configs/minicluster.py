"""ReFrame on a minicluster started by `nimc minicluster up` on this host."""

import os
import sys
from pathlib import Path
from platform import machine as architecture

from reframe_tests.logs import LOGGING
from testbed.spec import ClusterLayout, default_state
from testbed.state import read as read_state

BIN = Path(sys.executable).parent
STATE = Path(os.environ.setdefault("NIMC_MINICLUSTER", str(default_state())))
LAYOUT = ClusterLayout.from_state(STATE)  # refuses a folder that another user may have planted
if LAYOUT.slurm_conf.exists():  # if it names a missing file, Slurm's commands wait for a minute
    os.environ["SLURM_CONF"] = str(LAYOUT.slurm_conf)
CLUSTER = read_state(LAYOUT)
#: True if nodes have QEMU's processor, which has no AVX-512, even if the host that compiles does.
QEMU_X86 = CLUSTER is not None and CLUSTER.accelerator == "tcg" and architecture() == "x86_64"

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
                    "sched_options": {
                        "use_nodes_option": True,
                        # Sessions survive an outage of accounting; `nimc` gives up after 10 min.
                        "max_sacct_failures": 1000,
                        # A job waits for the nodes it is pinned to; ReFrame would cancel it.
                        "ignore_reqnodenotavail": True,
                    },
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
            "cflags": ["-march=x86-64-v3"] if QEMU_X86 else [],
            "features": ["wheels"],
            "target_systems": ["*"],
        }
    ],
    # The end of a job is noticed at most a second late.
    "general": [{"resolve_module_conflicts": False, "remote_detect": False, "poll_rate_min": 1.0}],
    "logging": LOGGING,
}
