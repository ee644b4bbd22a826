"""CNS with and without writers (Groves, Grant and Arnold 2016, section V)."""

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class cns(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Compressible Navier-Stokes on boxes of a cube, one rank per core."""

    descr = "CNS under RDMA writes"
    workload = "cns"
    mpi = True
    sourcesdir = None
    program = executable = "cns"
    tags = {"single_node"}
    within_block = ("cells", "box", "steps")
    #: The cube does not grow with the ranks.
    comparable_across_cores = True

    #: Cells along the edge of the cube and of its boxes, and time steps.
    cells = variable(int, value=128)
    box = variable(int, value=32)
    steps = variable(int, value=5)

    def lay_out(self):
        """Write the input, without plot files."""
        self.rank_a_core()
        lines = [f"nsteps={self.steps}", "plot_int=0", f"n_cell={self.cells}"]
        lines += [f"max_grid_size={self.box}", "cfl=0.5d0", "eta=1.8d-4", "alam=1.5d2"]
        text = "\n".join(["&probin", *(f"  {line}" for line in lines), "/", ""])
        self.executable_opts = [self.input_file("inputs", text)]


@rfm.simple_test
class cns_quick(cns):
    """A short form that still shows an effect."""

    tags = {"short"}
    cells = 64
    steps = 3
    pairs = 6
