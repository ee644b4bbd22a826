"""XSBench with and without writers (Groves, Grant and Arnold 2016, section V)."""

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin

#: Memory of one rank's unionized grid at size `large`, as XSBench prints it.
_LARGE_B = 5.7e9


@rfm.simple_test
class xsbench(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Lookups of cross-sections, on ranks and threads."""

    descr = "XSBench under RDMA writes"
    workload = "xsbench"
    mpi = True
    stack = "proxyapps"
    package = "xsbench"
    program = executable = "XSBench"
    tags = {"single_node"}
    within_block = ("threads", "size", "method")
    comparable_across_cores = True

    #: Threads per rank; cores / threads is the number of ranks (16 ranks of one thread in Groves,
    #: Grant and Arnold 2016).
    threads = variable(int, value=1)

    #: `small`, `large`, or `auto`: large if the grids of all ranks fit into the share of memory
    #: that the site file allows.
    size = variable(str, value="auto")

    #: `history` or `event`.
    method = variable(str, value="history")

    def lay_out(self):
        """Every rank holds the whole grid, so memory limits its size."""
        self.ranks(max(1, self.app_cores // self.threads), self.threads)
        allowed_b = self.machine.memory_share * self.node_facts.memory_b
        fits = max(1, self.sized_cores // self.threads) * _LARGE_B <= allowed_b
        size = ("large" if fits else "small") if self.size == "auto" else self.size
        self.executable_opts = ["-m", self.method, "-s", size, "-t", str(self.threads)]


@rfm.simple_test
class xsbench_quick(xsbench):
    """A short form: the smallest with a known checksum."""

    tags = {"short"}
    size = "small"
    method = "event"
    pairs = 6
