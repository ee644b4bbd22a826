"""LAMMPS melt with and without writers (Groves, Grant and Arnold 2016, sections V and VI)."""

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, near_cube
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class lammps(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """3D Lennard-Jones melt, 32,000 atoms per core (weak scaling), one rank per core."""

    descr = "LAMMPS melt under RDMA writes"
    workload = "lammps"
    mpi = True
    stack = package = "lammps"
    program = executable = "lmp"
    sourcesdir = "src/lammps"
    tags = {"single_node"}
    within_block = ("steps",)
    lengthened_by = "steps"
    comparable_across_cores = True

    #: Time steps.
    steps = variable(int, value=10000)

    def lay_out(self):
        """One rank per core; reserved cores do not change the box."""
        self.rank_a_core()
        self.melt(self.sized_cores)

    def melt(self, cores):
        """A box of 20 x 20 x 20 cells (32,000 atoms) for each of `cores`."""
        box = zip("xyz", near_cube(cores), strict=True)
        variables = [word for axis, n in box for word in ("-var", axis, str(n))]
        self.executable_opts = ["-in", "in.melt", "-log", "none", *variables]
        self.executable_opts += ["-var", "steps", str(self.steps)]


@rfm.simple_test
class lammps_quick(lammps):
    """A short form that still shows an effect."""

    tags = {"quick", "short"}
    steps = 300
    pairs = 6
