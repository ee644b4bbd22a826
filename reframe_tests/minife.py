"""miniFE with and without writers."""

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, NodesMixin
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class minife(rfm.RunOnlyRegressionTest, BinariesMixin, NodesMixin, NimcMixin):
    """Finite elements and conjugate gradients, one rank per core (weak scaling)."""

    descr = "miniFE under RDMA writes"
    workload = "minife"
    mpi = True
    sourcesdir = "src/show_after"
    stack = "proxyapps"
    package = "minife"
    program = "miniFE.x"
    executable = "./show_after.sh"
    tags = {"single_node"}
    within_block = ("edge",)
    threaded = False
    comparable_across_cores = True

    #: Elements along the edge of each core's share, if it were a cube.
    edge = variable(int, value=100)

    def lay_out(self):
        """One cube for all ranks; reserved cores do not change it."""
        self.spread(self.ranks_per_node())
        elements = str(round(self.edge * (self.nodes * self.sized_cores) ** (1 / 3)))
        self.executable_opts = ["miniFE*.yaml", self.program, "-nx", elements]
        self.executable_opts += ["-verify_solution", "1"]


@rfm.simple_test
class minife_quick(minife):
    """A short form that still shows an effect."""

    tags = {"short"}
    edge = 50
    pairs = 6
