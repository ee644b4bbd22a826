"""UMT with and without writers (the multirail study's suite)."""

import reframe as rfm
from reframe.core.builtins import run_before, variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class umt(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Radiation transport, benchmark problem 2, one rank a core (weak scaling)."""

    descr = "UMT under RDMA writes"
    workload = "umt"
    mpi = True
    valid_systems = ["*"]
    valid_prog_environs = ["+spack", "+modules", "+wheels"]
    sourcesdir = None
    stack = "coral"
    package = "umt"
    program = executable = "test_driver"
    tags = {"single_node"}

    #: Tiles along the edge of each rank's mesh (192 elements and 98,304 unknowns a tile), cycles.
    edge = variable(int, value=8)
    cycles = variable(int, value=3)

    @run_before("run")
    def one_rank_a_core(self):
        """Every rank has the same mesh."""
        self.num_tasks = self.num_tasks_per_node = self.app_cores
        self.env_vars["OMP_NUM_THREADS"] = 1
        edges = ",".join([str(self.edge)] * 3)
        self.executable_opts = ["-c", str(self.cycles), "-B", "local", "-d", edges]
        self.executable_opts += ["--benchmark_problem", "2"]


@rfm.simple_test
class umt_quick(umt):
    """A short form that still tells an effect."""

    tags = {"quick"}
    edge = 3
    cycles = 2
    pairs = 6
