"""ReFrame on a minicluster started by `nimc minicluster up` on this host."""

import os
import sys
from pathlib import Path
from platform import machine

from reframe_tests.logs import LOGGING
from testbed.spec import ClusterLayout, default_state
from testbed.state import read

BIN = Path(sys.executable).parent
STATE = Path(os.environ.setdefault("NIMC_MINICLUSTER", str(default_state())))
LAYOUT = ClusterLayout.from_state(STATE)  # refuses a folder that another user may have planted
if LAYOUT.slurm_conf.exists():  # without it, Slurm's commands wait for a minute
    os.environ["SLURM_CONF"] = str(LAYOUT.slurm_conf)
#: QEMU's emulated processor has no AVX-512, even if the host that compiles does.
RUNNING = read(LAYOUT)
EMULATED = RUNNING is not None and RUNNING.accelerator == "tcg" and machine() == "x86_64"

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
                        # An outage of accounting ends no session; `nimc` gives up after 10 min.
                        "max_sacct_failures": 1000,
                        # A pinned job waits for its nodes: ReFrame would cancel it.
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
            "cflags": ["-march=x86-64-v3"] if EMULATED else [],
            "features": ["wheels"],
            "target_systems": ["*"],
        }
    ],
    # The end of a job is noticed at most a second late.
    "general": [{"resolve_module_conflicts": False, "remote_detect": False, "poll_rate_min": 1.0}],
    "logging": LOGGING,
}
