"""HPCCG with and without RDMA writes (Groves, Grant and Arnold 2016, section V)."""

import re
from itertools import product
from math import prod, sqrt

import reframe as rfm
from reframe.core.builtins import variable

from records.notes import Note
from reframe_tests.binaries import ProgramTest, ThreadsMixin
from reframe_tests.factors import AUTO, variable_fault
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import FLOAT, Near, Within, Workload

#: Memory of one grid point, bytes: 27 matrix entries of 12 bytes each, pointers and six vectors.
#: The measured memory was 398 bytes.
_POINT_B = 400


@rfm.simple_test
class hpccg(ProgramTest, ThreadsMixin, WorkingSetMixin):
    """Conjugate gradients, 27-point stencil, stacked cubes, one rank per core (weak scaling)."""

    workload = "hpccg"
    stack = package = "hpccg"
    program = executable = "test_HPCCG"
    within_block = ("layout", "memory_share", "edge", "working_set")
    point_b = _POINT_B

    #: Share of a node's memory that its ranks take together, limited by the site file's
    #: `memory_share`; Groves, Grant and Arnold (2016) use 25 to 75 %.
    memory_share = variable(float, value=0.25)

    #: Grid points along the edge of each rank's cube; 0 derives it from `memory_share`. Another
    #: `layout` keeps the node's total.
    edge = variable(int, value=0)

    def lay_out(self):
        """Give each rank a cube of the same size; the cubes are stacked along z."""
        ranks, threads = self.ranks_and_threads(self.app_cores)
        self.set_ranks(ranks, threads)
        if not 0 < self.memory_share <= 1:
            raise variable_fault(self, "memory_share", "allowed: a number above 0, at most 1")
        share = min(self.memory_share, self.machine.memory_share)
        default_edge = 0  # remains if a working set is chosen, which gives the edge
        if self.edge:
            default_edge = self.edge_of_same_work(self.edge)
        elif self.working_set == AUTO:
            if share < self.memory_share:
                note = Note.HPCCG_SMALL(
                    share=share, machine=self.machine.name, wanted=self.memory_share
                )
                self.notes = [*self.notes, note]
            rank_b = share * self.machine.memory_b() / ranks
            default_edge = int((rank_b / _POINT_B) ** (1 / 3))
        edge = self.working_set_edge(default_edge, _POINT_B)
        self.require_countable(edge**3, ranks)
        self.executable_opts = [str(edge)] * 3


add_short_form(hpccg, edge=64)


def initial_residual(nx: int, ny: int, nz: int) -> float:
    """Return HPCCG's initial residual on a grid of nx * ny * nz points.

    It is the norm of the right-hand side, which is 28 - k at a point with k points in its
    neighbourhood (itself included). Along one axis, each of the two end points has two points in
    its neighbourhood, and each of the others three.
    """
    # For each axis: sizes of neighbourhoods, each with the number of points that have it.
    axes = [((2, 2), (3, n - 2)) if n > 1 else ((1, 1),) for n in (nx, ny, nz)]
    sum_of_squares = 0
    for sizes_and_counts in product(*axes):
        neighbourhood = prod(size for size, _ in sizes_and_counts)
        points = prod(count for _, count in sizes_and_counts)
        sum_of_squares += points * (28 - neighbourhood) ** 2
    return sqrt(sum_of_squares)


def _time_pattern(label: str) -> re.Pattern[str]:
    """Return the pattern of a line in the summary of times.

    Other summaries have lines with the same labels.
    """
    lines_before = r"(?:(?!FLOPS Summary:)[\s\S])*?"
    return re.compile(rf"Time Summary:{lines_before}^\s*{label}\s*{FLOAT}")


WORKLOAD = Workload(
    title="HPCCG 1.0",
    fom="time of the conjugate gradients",
    unit="s",
    better="lower",
    figure="total_s",
    numbers={
        "nx": "nx:",
        "ny": "ny:",
        "nz": "nz:",
        "ranks": "Number of MPI ranks:",
        "initial_residual": "Initial Residual =",
        "iterations": "Number of iterations:",
        "final_residual": "Final residual:",
        "total_s": _time_pattern("Total   :"),
        "sparsemv_s": _time_pattern("SPARSEMV:"),
        "ddot_s": _time_pattern("DDOT    :"),
    },
    derived={"residual_left": lambda numbers: numbers.final_residual / numbers.initial_residual},
    extra=("ranks", "sparsemv_s", "ddot_s", "iterations", "final_residual"),
    proof={
        "initial residual as computed from the grid": Near(
            "initial_residual",
            lambda numbers: initial_residual(
                int(numbers.nx), int(numbers.ny), int(numbers.nz * numbers.ranks)
            ),
            1e-5,
        ),
        # HPCCG counts iterations from 1 and ends before the 150th, whatever the residual.
        "149 iterations": Within("iterations", 149, 149),
        # A row of the matrix holds 27 and up to 26 times -1, so the condition number is at most 53.
        # Then 149 iterations leave at most 2 * 0.758^149 = 2e-18 of the initial error; what remains
        # is rounding.
        "a final residual 1e14 times smaller": Within("residual_left", 0, 1e-14),
    },
)
