"""miniFE with and without RDMA writes."""

from math import sqrt
from sys import float_info
from typing import Any

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import NodesMixin, ProgramTest
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import Near, Within, Workload, optional_number

#: Memory of one row, bytes: 27 matrix entries of 12 bytes, the row's offset, and six vectors.
_ROW_B = 380
#: Limit of iterations; grids with more than 50 elements along the edge reach it. In this number of
#: iterations, the solution of a large grid does not get from the boundary to the middle, where
#: `-verify_solution` expects it.
_MAX_ITERATIONS = 200


@rfm.simple_test
class minife(ProgramTest, NodesMixin, WorkingSetMixin):
    """Finite elements and conjugate gradients, one rank per core (weak scaling)."""

    workload = "minife"
    sourcesdir = "src/show_after"  # miniFE writes its figures to a YAML file
    stack = "proxyapps"
    package = "minife"
    program = "miniFE.x"
    executable = "./show_after.sh"
    within_block = ("edge", "working_set")
    comparable_across_cores = True

    #: Elements along the edge of a cube with the elements of one core.
    edge = variable(int, value=100)

    def lay_out(self):
        """Set one cube for all ranks; reserved cores do not change it."""
        self.set_ranks_per_node(self.ranks_per_node())
        edge = self.working_set_edge(self.edge, _ROW_B)
        grid_edge = round(edge * (self.nodes * self.sized_cores) ** (1 / 3))
        self.working_set_b = grid_edge**3 * _ROW_B / self.num_tasks
        self.require_countable((grid_edge + 1) ** 3 / self.num_tasks, self.num_tasks)
        self.executable_opts = ["miniFE*.yaml", self.program, "-nx", str(grid_edge)]


add_short_form(minife, edge=50)


def _residual_share(run: Any) -> float:
    """Return the final residual as a share of its limit.

    The limit is the machine's epsilon. If all iterations were made, the limit is 1 % of the initial
    residual.
    """
    limit = float_info.epsilon
    if run.iterations >= _MAX_ITERATIONS:
        limit = 0.01 * run.initial_residual
    return float(run.final_residual / limit)


WORKLOAD = Workload(
    title="miniFE 2.1.0",
    fom="time of the conjugate gradients",
    unit="s",
    better="lower",
    figure="cg_s",
    numbers={
        "cg_s": "Total CG Time:",
        "matvec_s": "MATVEC Time:",
        "ranks": optional_number(r"^ +number of processors: (\d+)"),
        "nx": "nx:",
        "ny": "ny:",
        "nz": "nz:",
        "rows": "Global Nrows:",
        "iterations": "Iterations:",
        "initial_residual": "Initial Residual =",
        "final_residual": "Final Resid Norm:",
    },
    derived={"residual_share": _residual_share},
    extra=("matvec_s", "iterations", "rows", "final_residual"),
    proof={
        # The right-hand side is 1 in each row of the face x = 1. All other rows together add to the
        # sum of squares no more than some (nx / ny) * (nx / nz).
        "initial residual within 1 % of that of the boundary": Near(
            "initial_residual", lambda run: sqrt((run.ny + 1) * (run.nz + 1)), 0.01
        ),
        "a row for each grid point": Near(
            "rows", lambda run: (run.nx + 1) * (run.ny + 1) * (run.nz + 1)
        ),
        "at most 200 iterations": Within("iterations", 1, _MAX_ITERATIONS),
        "residual below the machine's epsilon, or 1 % of the first after the full 200 iterations": (
            Within("residual_share", 0, 1)
        ),
    },
)
