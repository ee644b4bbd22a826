"""miniFE with and without writers (the multirail study's suite)."""

import reframe as rfm
from reframe.core.builtins import run_before, variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class minife(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Finite elements and conjugate gradients, one rank a core (weak scaling)."""

    descr = "miniFE under RDMA writes"
    workload = "minife"
    mpi = True
    valid_systems = ["*"]
    valid_prog_environs = ["+spack", "+modules", "+wheels"]
    sourcesdir = "src/show_after"
    stack = "proxyapps"
    package = "minife"
    program = "miniFE.x"
    executable = "./show_after.sh"
    tags = {"single_node"}

    #: Elements along the edge of each rank's share, were it a cube.
    edge = variable(int, value=100)

    @run_before("run")
    def one_rank_a_core(self):
        """One cube for all ranks, as many elements a rank as `edge` says."""
        self.num_tasks = self.num_tasks_per_node = self.app_cores
        self.env_vars["OMP_NUM_THREADS"] = 1
        elements = str(round(self.edge * self.num_tasks ** (1 / 3)))
        self.executable_opts = ["miniFE*.yaml", self.program, "-nx", elements]
        self.executable_opts += ["-verify_solution", "1"]


@rfm.simple_test
class minife_quick(minife):
    """A short form that still tells an effect."""

    tags = {"quick"}
    edge = 50
    pairs = 6
