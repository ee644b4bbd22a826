"""HPCCG with and without writers (the paper's section V)."""

import reframe as rfm
from reframe.core.builtins import run_before, variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin

#: Memory of one grid point: 27 matrix entries of 12 bytes, pointers and six vectors (398 measured).
_POINT_B = 400


@rfm.simple_test
class hpccg(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Conjugate gradients on a 27-point chimney, one rank a core (weak scaling)."""

    descr = "HPCCG under RDMA writes"
    workload = "hpccg"
    mpi = True
    valid_systems = ["*"]
    valid_prog_environs = ["+spack", "+modules", "+wheels"]
    stack = "proxyapps"
    package = "hpccg"
    program = executable = "test_HPCCG"
    tags = {"single_node"}

    #: Share of memory that all ranks of a node take; the study has 25 to 75 %.
    memory_share = variable(float, value=0.25)

    #: Grid points along the edge of each rank's cube; 0 follows from `memory_share`.
    edge = variable(int, value=0)

    @run_before("run")
    def one_rank_a_core(self):
        """Every rank has a cube of the same size, stacked along z."""
        self.num_tasks = self.num_tasks_per_node = self.app_cores
        self.env_vars["OMP_NUM_THREADS"] = 1
        rank_b = self.memory_share * self.node_facts.memory_b / self.app_cores
        edge = self.edge or int((rank_b / _POINT_B) ** (1 / 3))
        self.executable_opts = [str(edge)] * 3


@rfm.simple_test
class hpccg_quick(hpccg):
    """A short form that still tells an effect."""

    tags = {"quick"}
    edge = 64
    pairs = 6
