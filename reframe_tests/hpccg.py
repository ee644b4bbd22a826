"""HPCCG with and without writers (Groves, Grant and Arnold 2016, section V)."""

from itertools import product
from math import prod, sqrt

import reframe as rfm
from reframe.core.builtins import variable

from records.notes import Note
from reframe_tests.binaries import BinariesMixin, ThreadsMixin
from reframe_tests.factors import AUTO, fault
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import Fom, FomError, Workload, last_number, require_close

#: Memory of one grid point: 27 matrix entries of 12 bytes, pointers and six vectors (398 measured).
_POINT_B = 400


@rfm.simple_test
class hpccg(rfm.RunOnlyRegressionTest, BinariesMixin, ThreadsMixin, WorkingSetMixin, NimcMixin):
    """Conjugate gradients on a 27-point chimney, one rank per core (weak scaling)."""

    descr = "HPCCG under RDMA writes"
    workload = "hpccg"
    mpi = True
    stack = package = "hpccg"
    program = executable = "test_HPCCG"
    tags = {"single_node"}
    within_block = ("layout", "memory_share", "edge", "working_set")

    #: Share of memory that all ranks of a node take, limited by the site file's memory_share;
    #: Groves, Grant and Arnold (2016) use 25 to 75 %.
    memory_share = variable(float, value=0.25)

    #: Grid points along the edge of each rank's cube; 0 derives it from `memory_share`.
    edge = variable(int, value=0)

    def lay_out(self):
        """Cubes of the same size, one per rank, stacked along z."""
        ranks, threads = self.shape(self.app_cores)
        self.ranks(ranks, threads)
        if not 0 < self.memory_share <= 1:
            raise fault(self, "memory_share", "allowed: a number above 0, at most 1")
        share = min(self.memory_share, self.machine.memory_share)
        edge = self.edge and self.same_work(self.edge)
        if not edge and self.working_set == AUTO:
            if share < self.memory_share:
                name, wanted = self.machine.name, self.memory_share
                note = Note.HPCCG_SMALL(share=share, machine=name, wanted=wanted)
                self.notes = [*self.notes, note]
            rank_b = share * self.machine.memory_b() / ranks
            edge = int((rank_b / _POINT_B) ** (1 / 3))
        self.executable_opts = [str(self.edge_of(edge, _POINT_B))] * 3


short_form(hpccg, edge=64)


# Time of the conjugate gradients, proved by the residuals that the problem must have.

#: HPCCG runs to its 150th iteration whatever the residual, and counts from 1.
ITERATIONS = 149
#: A row holds 27 and at most 26 times -1, so the condition number is at most 53, and 149
#: iterations shrink the error by 2 * 0.758^149 = 2e-18 or more; the rest is left to rounding.
_REDUCTION = 1e-14
#: The initial residual is printed with six digits.
_SIX_DIGITS = 1e-5


def parse(stdout: str) -> Fom:
    """Total time in seconds; also ranks, iterations, time in two kernels, and final residual."""
    nx, ny, nz = (int(last_number(f"{name}:", stdout)) for name in ("nx", "ny", "nz"))
    ranks = int(last_number("Number of MPI ranks:", stdout))
    initial = last_number("Initial Residual =", stdout)
    known = initial_residual(nx, ny, nz * ranks)
    require_close("the initial residual", initial, known, _SIX_DIGITS)
    iterations = int(last_number("Number of iterations:", stdout))
    if iterations != ITERATIONS:
        raise FomError(f"HPCCG made {iterations} iterations, not {ITERATIONS}")
    final = last_number("Final residual:", stdout)
    if not 0 <= final <= _REDUCTION * initial:
        raise FomError(f"the final residual is {final:g}, not below {_REDUCTION:g} of the first")
    times = stdout.partition("Time Summary:")[2].partition("FLOPS Summary:")[0]
    extra = {
        "ranks": float(ranks),
        "sparsemv_s": last_number("SPARSEMV:", times),
        "ddot_s": last_number("DDOT    :", times),
        "iterations": float(iterations),
        "final_residual": final,
    }
    return Fom(last_number("Total   :", times), extra)


def initial_residual(nx: int, ny: int, nz: int) -> float:
    """Norm of the right-hand side, HPCCG's initial residual, on a grid of nx * ny * nz points.

    A point whose 27-point neighbourhood has k points has 28 - k on its right-hand side. Along one
    axis the two end points have two points in it, the others three.
    """
    axes = [((2, 2), (3, n - 2)) if n > 1 else ((1, 1),) for n in (nx, ny, nz)]
    squares = 0
    for kinds in product(*axes):
        seen, points = prod(k for k, _ in kinds), prod(count for _, count in kinds)
        squares += points * (28 - seen) ** 2
    return sqrt(squares)


WORKLOAD = Workload(
    title="HPCCG 1.0",
    fom="time of the conjugate gradients",
    unit="s",
    better="lower",
    sanity="initial residual as computed from the grid, 149 iterations, and a final residual"
    " 1e14 times smaller",
    parser=parse,
)
