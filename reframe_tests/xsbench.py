"""XSBench with and without writers (the paper's section V)."""

import reframe as rfm
from reframe.core.builtins import run_before, variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin

#: Memory of one rank's unionized grid at size `large`, as XSBench tells it.
_LARGE_B = 5.7e9


@rfm.simple_test
class xsbench(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Lookups of cross-sections, ranks by threads (the study: 16 ranks of one thread)."""

    descr = "XSBench under RDMA writes"
    workload = "xsbench"
    mpi = True
    valid_systems = ["*"]
    valid_prog_environs = ["+spack", "+modules", "+wheels"]
    stack = "proxyapps"
    package = "xsbench"
    program = executable = "XSBench"
    tags = {"single_node"}

    #: Threads a rank; ranks take the cores that follow.
    threads = variable(int, value=1)

    #: `small`, `large`, or `auto`: large where the share of memory that the machine's file allows
    #: holds every rank's grid.
    size = variable(str, value="auto")

    #: `history` or `event`.
    method = variable(str, value="history")

    @run_before("run")
    def ranks_by_threads(self):
        """Every rank holds the whole grid, so memory decides its size."""
        self.num_tasks = self.num_tasks_per_node = max(1, self.app_cores // self.threads)
        self.num_cpus_per_task = self.threads
        self.env_vars["OMP_NUM_THREADS"] = self.threads
        allowed_b = self.machine.memory_share * self.node_facts.memory_b
        fits = self.num_tasks * _LARGE_B <= allowed_b
        size = ("large" if fits else "small") if self.size == "auto" else self.size
        self.executable_opts = ["-m", self.method, "-s", size, "-t", str(self.threads)]


@rfm.simple_test
class xsbench_quick(xsbench):
    """A short form: the smallest that has a known checksum."""

    tags = {"quick"}
    size = "small"
    method = "event"
    pairs = 6
