"""Quicksilver with and without RDMA writes."""

import re
from collections.abc import Callable
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import NodesMixin, ProgramTest, ThreadsMixin, near_cube
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import Near, Within, Workload, last_match, match_count

#: Problem 1 of the CORAL-2 benchmark: one material, reflecting sides.
_INPUT = Path(__file__).parent / "src/quicksilver/coral2_p1.inp.in"


@rfm.simple_test
class quicksilver(ProgramTest, NodesMixin, ThreadsMixin):
    """Monte Carlo transport of particles, one rank per core or socket (weak scaling)."""

    workload = "quicksilver"
    stack = "proxyapps"
    package = "quicksilver"
    program = executable = "qs"
    within_block = ("layout", "edge", "particles", "steps")

    #: Cells along the edge of each rank's cube.
    edge = variable(int, value=6)
    #: Particles per cell. The program's test of homogeneity needs 5,000 particles x steps
    #: or more.
    particles = variable(int, value=500)
    #: Time steps.
    steps = variable(int, value=20)

    def lay_out(self):
        """Write the input: a box of cubes, one per rank."""
        self.set_ranks_per_node(self.ranks_per_node())
        edge = self.edge_of_same_work(self.edge)
        sizes = {"steps": self.steps, "particles": self.particles * edge**3 * self.num_tasks}
        for axis, ranks in zip("xyz", near_cube(self.num_tasks), strict=True):
            sizes |= {f"ranks_{axis}": ranks, f"cells_{axis}": edge * ranks}
        text = _INPUT.read_text().format(**sizes)
        self.executable_opts = ["-i", self.input_file("coral2_p1.inp", text)]


add_short_form(quicksilver, edge=3, particles=1000, steps=5)


#: Number of columns of the table of cycles besides the first, which has the cycle's number.
_FURTHER_COLUMNS = 16


def _step_rows(stdout: str) -> list[dict[str, str]]:
    """Return the row of each step: column -> text. The program calls a step a cycle."""
    names = last_match(r"^cycle\s+start\s.*$", stdout, "table of cycles").group().split()
    lines = re.findall(rf"^ +\d+(?: +\S+){{{_FURTHER_COLUMNS}}} *$", stdout, re.MULTILINE)
    return [dict(zip(names, line.split(), strict=False)) for line in lines]


def _steps_done(stdout: str) -> float:
    """Return the number of steps that are numbered in order."""
    return sum(int(row["cycle"]) == step for step, row in enumerate(_step_rows(stdout)))


def _sum_of(column: str) -> Callable[[str], float]:
    """Return a function that sums a column over all steps."""
    return lambda stdout: sum(float(row[column]) for row in _step_rows(stdout))


WORKLOAD = Workload(
    title="Quicksilver, CORAL-2 problem 1",
    fom="segments of particles tracked per second",
    unit="1/s",
    better="higher",
    figure="rate_1_s",
    error=r"^\s*FAIL:: (.*?)\s*$",
    numbers={
        "tests_passed": match_count(r"^\s*PASS:: "),
        "steps": "nSteps:",
        "steps_done": _steps_done,
        "segments": _sum_of("num_seg"),
        "tracking_s": _sum_of("cycleTracking"),
        "printed_1_s": "Figure Of Merit",
        "ranks": "Number of MPI ranks     :",
    },
    # The tracking time is the first rank's.
    derived={"rate_1_s": lambda numbers: numbers.segments / numbers.tracking_s},
    extra=("segments", "steps", "ranks"),
    proof={
        # The tests: ratios of reactions, reactions and crossings, lost particles, and homogeneity.
        "the program's four tests of the problem passed": Within("tests_passed", 4, 4),
        "all steps made": Near("steps_done", lambda numbers: numbers.steps),
        # The printed rate uses the slowest rank's time, and is rounded to four digits.
        "rate within 5 % of the printed rate": Near(
            "rate_1_s", lambda numbers: numbers.printed_1_s, 0.05
        ),
    },
)
