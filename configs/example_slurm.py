"""ReFrame on a production cluster with Slurm: a template to copy to `configs/MACHINE.py`.

This file says how ReFrame reaches the machine. Facts of the machine (NIC, link rate, where origin
nodes come from) are in `site/MACHINE.yaml`. `nimc doctor --machine MACHINE` checks both files;
docs/add-a-machine.md explains them.
"""

import sys
from pathlib import Path

from reframe_tests.logs import LOGGING

# The environment made by `make test`. Compute nodes must see it: keep the checkout on a shared file
# system.
BIN = Path(sys.executable).parent

site_configuration = {
    "systems": [
        {
            # The name of this file, of the file in site/, and of --machine.
            "name": Path(__file__).stem,
            "descr": "two partitions, origins in a heterogeneous job",
            # Host names of the login nodes, as regular expressions.
            "hostnames": [r"login\d+\.example"],
            # nomod, lmod, tmod, ...
            "modules_system": "lmod",
            "partitions": [
                {
                    "name": "standard",
                    # `slurm` needs accounting: ReFrame reads job states from sacct.
                    "scheduler": "slurm",
                    # Starts MPI ranks in a job: srun in this partition.
                    "launcher": "srun",
                    # Options of every job: partition, account, constraint. The partition of the
                    # origins' component comes from site/.
                    "access": ["--partition=standard", "--account=bench", "--exclusive"],
                    # Environments with programs; a check uses the first in which it can run.
                    "environs": ["spack", "wheels"],
                    # One case at a time, since concurrent cases would disturb each other.
                    "max_jobs": 1,
                    "time_limit": "4h",
                    "sched_options": {
                        "use_nodes_option": True,
                        # Sessions survive an outage of accounting; `nimc` gives up after 10 min.
                        "max_sacct_failures": 1000,
                        # A job waits for the nodes it is pinned to; ReFrame would cancel it.
                        "ignore_reqnodenotavail": True,
                    },
                    "env_vars": [["PATH", f"{BIN}:$PATH"]],
                },
                {
                    "name": "highmem",
                    "scheduler": "slurm",
                    # Starts MPI ranks in this partition: Open MPI's own launcher.
                    "launcher": "mpirun",
                    "access": ["--partition=highmem", "--account=bench", "--exclusive"],
                    "environs": ["modules"],
                    "max_jobs": 1,
                    "time_limit": "4h",
                    "sched_options": {
                        "use_nodes_option": True,
                        "max_sacct_failures": 1000,
                        "ignore_reqnodenotavail": True,
                    },
                    "env_vars": [["PATH", f"{BIN}:$PATH"]],
                },
            ],
        }
    ],
    "environments": [
        {
            # Built by `nimc spack` from spack_envs/, with Spack's compilers, so `cc` is empty.
            "name": "spack",
            "cc": "",
            "cxx": "",
            "ftn": "",
            "features": ["spack"],
            # Interface between srun and the application's MPI: pmix for Open MPI.
            "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
            "target_systems": ["*"],
        },
        {
            # Modules of the centre, loaded in order (docs/workloads.md).
            "name": "modules",
            "modules": ["EESSI/2023.06", "LAMMPS/29Aug2024-foss-2023b-kokkos"],
            "cc": "gcc",
            "cxx": "g++",
            "ftn": "gfortran",
            "features": ["modules"],
            "target_systems": ["*"],
        },
        {
            # Wheels, MPICH included: they work anywhere, but not over the fast network.
            "name": "wheels",
            "cc": "gcc",
            "cxx": "g++",
            "ftn": "",
            "features": ["wheels"],
            "env_vars": [["SLURM_MPI_TYPE", "pmi2"]],
            "target_systems": ["*"],
        },
    ],
    # The end of a job is noticed at most ten seconds late.
    "general": [{"resolve_module_conflicts": False, "remote_detect": False, "poll_rate_min": 0.1}],
    "logging": LOGGING,
}
