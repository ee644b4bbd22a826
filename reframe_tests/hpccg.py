"""HPCCG with and without writers (Groves, Grant and Arnold 2016, section V)."""

import re
from itertools import product
from math import prod, sqrt

import reframe as rfm
from reframe.core.builtins import variable

from records.notes import Note
from reframe_tests.binaries import ProgramTest, ThreadsMixin
from reframe_tests.factors import AUTO, variable_fault
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import short_form
from reframe_tests.workload import FLOAT, Near, Within, Workload

#: Memory of one grid point: 27 matrix entries of 12 bytes, pointers and six vectors (398 measured).
_POINT_B = 400


@rfm.simple_test
class hpccg(ProgramTest, ThreadsMixin, WorkingSetMixin):
    """Conjugate gradients on a 27-point chimney, one rank per core (weak scaling)."""

    workload = "hpccg"
    stack = package = "hpccg"
    program = executable = "test_HPCCG"
    within_block = ("layout", "memory_share", "edge", "working_set")

    #: Share of memory that all ranks of a node take, limited by the site file's memory_share;
    #: Groves, Grant and Arnold (2016) use 25 to 75 %.
    memory_share = variable(float, value=0.25)

    #: Grid points along the edge of each rank's cube; 0 derives it from `memory_share`.
    edge = variable(int, value=0)

    def lay_out(self):
        """Cubes of the same size, one per rank, stacked along z."""
        ranks, threads = self.ranks_and_threads(self.app_cores)
        self.set_ranks(ranks, threads)
        if not 0 < self.memory_share <= 1:
            raise variable_fault(self, "memory_share", "allowed: a number above 0, at most 1")
        share = min(self.memory_share, self.machine.memory_share)
        edge = self.edge and self.edge_of_same_work(self.edge)
        if not edge and self.working_set == AUTO:
            if share < self.memory_share:
                name, wanted = self.machine.name, self.memory_share
                note = Note.HPCCG_SMALL(share=share, machine=name, wanted=wanted)
                self.notes = [*self.notes, note]
            rank_b = share * self.machine.memory_b() / ranks
            edge = int((rank_b / _POINT_B) ** (1 / 3))
        self.executable_opts = [str(self.working_set_edge(edge, _POINT_B))] * 3


short_form(hpccg, edge=64)


def initial_residual(nx: int, ny: int, nz: int) -> float:
    """Norm of the right-hand side, HPCCG's initial residual, on a grid of nx * ny * nz points.

    A point whose 27-point neighbourhood has k points has 28 - k on its right-hand side. Along one
    axis the two end points have two points in it, the others three.
    """
    axes = [((2, 2), (3, n - 2)) if n > 1 else ((1, 1),) for n in (nx, ny, nz)]
    squares = 0
    for kinds in product(*axes):
        near = prod(size for size, _ in kinds)
        points = prod(count for _, count in kinds)
        squares += points * (28 - near) ** 2
    return sqrt(squares)


def _time_pattern(label: str) -> re.Pattern[str]:
    """A line of the first summary, that of times; the next has the same labels."""
    others = r"(?:(?!FLOPS Summary:)[\s\S])*?"
    return re.compile(rf"Time Summary:{others}^\s*{label}\s*{FLOAT}")


WORKLOAD = Workload(
    title="HPCCG 1.0",
    fom="time of the conjugate gradients",
    unit="s",
    better="lower",
    figure="total_s",
    numbers={
        **{name: f"{name}:" for name in ("nx", "ny", "nz")},
        "ranks": "Number of MPI ranks:",
        "initial_residual": "Initial Residual =",
        "iterations": "Number of iterations:",
        "final_residual": "Final residual:",
        "total_s": _time_pattern("Total   :"),
        "sparsemv_s": _time_pattern("SPARSEMV:"),
        "ddot_s": _time_pattern("DDOT    :"),
    },
    derived={"residual_left": lambda run: run.final_residual / run.initial_residual},
    extra=("ranks", "sparsemv_s", "ddot_s", "iterations", "final_residual"),
    proof={
        "initial residual as computed from the grid": Near(
            "initial_residual",
            lambda run: initial_residual(int(run.nx), int(run.ny), int(run.nz * run.ranks)),
            1e-5,
        ),
        # It runs to its 150th iteration whatever the residual, and counts from 1.
        "149 iterations": Within("iterations", 149, 149),
        # A row holds 27 and at most 26 times -1, so the condition number is at most 53, and 149
        # iterations shrink the error by 2 * 0.758^149 = 2e-18 or more; the rest is rounding.
        "a final residual 1e14 times smaller": Within("residual_left", 0, 1e-14),
    },
)
