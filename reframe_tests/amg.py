"""AMG with and without writers (the multirail study's suite)."""

import reframe as rfm
from reframe.core.builtins import run_before, variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin
from reframe_tests.shapes import near_cube


@rfm.simple_test
class amg(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Algebraic multigrid, problem 1, one rank a core (weak scaling)."""

    descr = "AMG under RDMA writes"
    workload = "amg"
    mpi = True
    valid_systems = ["*"]
    valid_prog_environs = ["+spack", "+modules", "+wheels"]
    sourcesdir = None
    stack = "coral"
    package = "amg2013"
    program = executable = "amg"
    tags = {"single_node"}

    #: Grid points along the edge of each rank's cube.
    edge = variable(int, value=96)

    @run_before("run")
    def one_rank_a_core(self):
        """A box of ranks that is as near to a cube as their number allows."""
        self.num_tasks = self.num_tasks_per_node = self.app_cores
        self.env_vars["OMP_NUM_THREADS"] = 1
        ranks = [str(n) for n in near_cube(self.num_tasks)]
        self.executable_opts = ["-P", *ranks, "-n", *[str(self.edge)] * 3, "-problem", "1"]


@rfm.simple_test
class amg_quick(amg):
    """A short form that still tells an effect."""

    tags = {"quick"}
    edge = 48
    pairs = 6
