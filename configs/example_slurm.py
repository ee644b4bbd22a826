"""ReFrame on a production cluster with Slurm: a model to copy to `configs/MACHINE.py`.

Everything here says how ReFrame reaches the machine. What the machine is (NIC, link rate, where
origin nodes come from) stands in `site/MACHINE.yaml`. Then `nimc doctor --machine MACHINE` says
what is still wrong with the two; docs/add-a-machine.md goes through them line by line.
"""

import sys
from pathlib import Path

from reframe_tests.logs import LOGGING

# The environment that `make test` has made. Compute nodes must see it: keep the checkout on a
# shared file system.
BIN = Path(sys.executable).parent

site_configuration = {
    "systems": [
        {
            # Equal to the name of the file in site/ and to --machine.
            "name": "example_slurm",
            "descr": "two partitions, origins in a heterogeneous job",
            # Host names of the login nodes, as regular expressions.
            "hostnames": [r"login\d+\.example", r"login\d+"],
            # nomod, lmod, tmod, ...
            "modules_system": "lmod",
            "partitions": [
                {
                    "name": "standard",
                    # `slurm` needs accounting (sacct); job states come from there.
                    "scheduler": "slurm",
                    # What starts MPI ranks inside a job: srun here ...
                    "launcher": "srun",
                    # Options of every job: partition, account, constraint. The origins' component
                    # of the job takes its partition from site/.
                    "access": ["--partition=standard", "--account=bench", "--exclusive"],
                    # Where binaries come from, the first that a check can use.
                    "environs": ["spack", "wheels"],
                    # Cases run one after the other, since they would disturb each other.
                    "max_jobs": 1,
                    "time_limit": "4h",
                    "sched_options": {"use_nodes_option": True},
                    "env_vars": [["PATH", f"{BIN}:$PATH"]],
                },
                {
                    "name": "highmem",
                    "scheduler": "slurm",
                    # ... and Open MPI's own launcher there.
                    "launcher": "mpirun",
                    "access": ["--partition=highmem", "--account=bench", "--exclusive"],
                    "environs": ["modules"],
                    "max_jobs": 1,
                    "time_limit": "4h",
                    "sched_options": {"use_nodes_option": True},
                    "env_vars": [["PATH", f"{BIN}:$PATH"]],
                },
            ],
        }
    ],
    "environments": [
        {
            # Built by `nimc spack build` from spack_envs/.
            "name": "spack",
            "cc": "gcc",
            "cxx": "g++",
            "ftn": "gfortran",
            "features": ["spack"],
            # What srun and the application's MPI find each other by: pmix for Open MPI.
            "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
            "target_systems": ["example_slurm"],
        },
        {
            # What the centre has installed.
            "name": "modules",
            "modules": ["gcc/13", "openmpi/5", "lammps/20250722"],
            "cc": "gcc",
            "cxx": "g++",
            "ftn": "gfortran",
            "features": ["modules"],
            "target_systems": ["example_slurm"],
        },
        {
            # What pip has installed, MPICH among it: works anywhere, but not over the fast network.
            "name": "wheels",
            "cc": "gcc",
            "cxx": "g++",
            "ftn": "",
            "features": ["wheels"],
            "env_vars": [["SLURM_MPI_TYPE", "pmi2"]],
            "target_systems": ["example_slurm"],
        },
    ],
    # The end of a job is seen at most ten seconds late.
    "general": [{"resolve_module_conflicts": False, "remote_detect": False, "poll_rate_min": 0.1}],
    "logging": LOGGING,
}
