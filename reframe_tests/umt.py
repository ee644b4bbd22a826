"""UMT with and without writers."""

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, NodesMixin
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class umt(rfm.RunOnlyRegressionTest, BinariesMixin, NodesMixin, NimcMixin):
    """Radiation transport, benchmark problem 2, one rank per core or socket (weak scaling)."""

    descr = "UMT under RDMA writes"
    workload = "umt"
    mpi = True
    sourcesdir = None
    program = executable = "test_driver"
    tags = {"single_node"}
    within_block = ("edge", "cycles")

    #: Tiles along the edge of each rank's mesh (192 elements and 98,304 unknowns per tile); cycles.
    edge = variable(int, value=8)
    cycles = variable(int, value=3)

    def lay_out(self):
        """The same mesh for every rank."""
        self.spread(self.ranks_per_node())
        edges = ",".join([str(self.edge)] * 3)
        self.executable_opts = ["-c", str(self.cycles), "-B", "local", "-d", edges]
        self.executable_opts += ["--benchmark_problem", "2"]


@rfm.simple_test
class umt_quick(umt):
    """A short form that still shows an effect."""

    tags = {"short"}
    edge = 3
    cycles = 2
    pairs = 6
