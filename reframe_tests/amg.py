"""AMG with and without writers."""

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, NodesMixin, near_cube
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class amg(rfm.RunOnlyRegressionTest, BinariesMixin, NodesMixin, NimcMixin):
    """Algebraic multigrid, problem 1, one rank per core or socket (weak scaling)."""

    descr = "AMG under RDMA writes"
    workload = "amg"
    mpi = True
    sourcesdir = None
    stack = "proxyapps"
    package = "amg2013"
    program = executable = "amg"
    tags = {"single_node"}
    within_block = ("edge",)

    #: Grid points along the edge of each rank's cube.
    edge = variable(int, value=96)

    def lay_out(self):
        """A box of ranks, as close to a cube as their number allows."""
        per_node = self.ranks_per_node()
        self.spread(per_node)
        ranks = [str(n) for n in near_cube(self.nodes * per_node)]
        self.executable_opts = ["-P", *ranks, "-n", *[str(self.edge)] * 3, "-problem", "1"]


@rfm.simple_test
class amg_quick(amg):
    """A short form that still shows an effect."""

    tags = {"short"}
    edge = 48
    pairs = 6
