"""AMG with and without RDMA writes."""

import re

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import NodesMixin, ProgramTest, ThreadsMixin, near_cube
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import FLOAT, Near, Within, Workload


@rfm.simple_test
class amg(ProgramTest, NodesMixin, ThreadsMixin):
    """Algebraic multigrid, problem 1, one rank per core or socket (weak scaling)."""

    workload = "amg"
    stack = "proxyapps"
    package = "amg2013"
    program = executable = "amg"
    within_block = ("layout", "edge")

    #: Grid points along the edge of each rank's cube. With a `layout`, a node has as many points as
    #: with one rank per core.
    edge = variable(int, value=96)

    def lay_out(self):
        """Arrange the ranks in the box with the least surface that their number allows."""
        per_node = self.ranks_per_node()
        self.set_ranks_per_node(per_node)
        ranks = [str(n) for n in near_cube(self.nodes * per_node)]
        edges = [str(self.edge_of_same_work(self.edge))] * 3
        self.executable_opts = ["-P", *ranks, "-n", *edges, "-problem", "1"]


add_short_form(amg, edge=48)


def _time_pattern(phase: str) -> re.Pattern[str]:
    """Return the pattern of a phase's time, which is the first time after the phase's title.

    Lines of other programs may lie between the title and the time.
    """
    time = rf"\n(?:(?!PCG ).*\n)*?\s+wall clock time = {FLOAT} seconds"
    return re.compile(rf"^PCG {phase}:{time}")


WORKLOAD = Workload(
    title="AMG 1.2, problem 1",
    fom="FOM_1: non-zeros per second, one part set-up and three parts solve",
    unit="1/s",
    better="higher",
    figure="fom_1",
    numbers={
        "fom_1": "Figure of Merit (FOM_1):",
        "residual": "Final Relative Residual Norm =",
        "iterations": "Iterations =",
        "setup_rate_1_s": "FOM_Setup: nnz_AP / Setup Phase Time:",
        "solve_rate_1_s": "FOM_Solve: nnz_AP * Iterations / Solve Phase Time:",
        "setup_s": _time_pattern("Setup"),
        "solve_s": _time_pattern("Solve"),
    },
    # Each phase's rate and time give the number of non-zeros. The two numbers must agree, since
    # both phases count the same non-zeros.
    derived={
        "setup_non_zeros": lambda numbers: numbers.setup_rate_1_s * numbers.setup_s,
        "solve_non_zeros": lambda numbers: (
            numbers.solve_rate_1_s * numbers.solve_s / numbers.iterations
        ),
    },
    extra=("setup_s", "solve_s", "iterations"),
    proof={
        "relative residual below 1e-8": Within("residual", 0, 1e-8),
        "at most 100 iterations": Within("iterations", 1, 100),
        "FOM_1 consistent with its phases": Near(
            "fom_1", lambda numbers: (numbers.setup_rate_1_s + 3 * numbers.solve_rate_1_s) / 4, 1e-5
        ),
        "rates of the phases consistent with their times": Near(
            "solve_non_zeros", lambda numbers: numbers.setup_non_zeros, 1e-3
        ),
    },
)
