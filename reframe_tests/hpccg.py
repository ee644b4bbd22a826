"""HPCCG with and without writers (Groves, Grant and Arnold 2016, section V)."""

import reframe as rfm
from reframe.core.builtins import variable

from nimc.base.errors import InputError
from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin

#: Memory of one grid point: 27 matrix entries of 12 bytes, pointers and six vectors (398 measured).
_POINT_B = 400


@rfm.simple_test
class hpccg(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Conjugate gradients on a 27-point chimney, one rank per core (weak scaling)."""

    descr = "HPCCG under RDMA writes"
    workload = "hpccg"
    mpi = True
    stack = package = "hpccg"
    program = executable = "test_HPCCG"
    tags = {"single_node"}
    within_block = ("memory_share", "edge")

    #: Share of memory that all ranks of a node take, limited by the site file's memory_share;
    #: Groves, Grant and Arnold (2016) use 25 to 75 %.
    memory_share = variable(float, value=0.25)

    #: Grid points along the edge of each rank's cube; 0 derives it from `memory_share`.
    edge = variable(int, value=0)

    def lay_out(self):
        """Cubes of the same size, one per rank, stacked along z."""
        self.rank_a_core()
        edge = self.edge or int((self._rank_b() / _POINT_B) ** (1 / 3))
        self.executable_opts = [str(edge)] * 3

    def _rank_b(self):
        if not 0 < self.memory_share <= 1:
            raise InputError(
                f"{self.name}.memory_share: {self.memory_share} found; allowed: a number above 0,"
                " at most 1"
            )
        share = min(self.memory_share, self.machine.memory_share)
        if share < self.memory_share:
            self.notes = [
                *self.notes,
                f"HPCCG takes {share:.0%} of memory (the memory_share of {self.machine.name}), not"
                f" {self.memory_share:.0%}",
            ]
        return share * self.node_facts.memory_b / self.app_cores


@rfm.simple_test
class hpccg_quick(hpccg):
    """A short form that still shows an effect."""

    tags = {"short"}
    edge = 64
    pairs = 6
