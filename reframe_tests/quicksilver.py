"""Quicksilver with and without writers."""

import re
from collections.abc import Callable

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import NodesMixin, ProgramTest, ThreadsMixin, near_cube
from reframe_tests.mixin import short_form
from reframe_tests.workload import Near, Within, Workload, count, last_match

#: Problem 1 of the CORAL-2 benchmark: one material, reflecting sides.
_SIMULATION = {
    "dt": 2e-9,
    "fMax": 0.1,
    "boundaryCondition": "reflect",
    "seed": 1029384756,
    "eMax": 20,
    "eMin": 1e-9,
    "nGroups": 230,
    "lowWeightCutoff": 0.001,
    "coralBenchmark": 1,
}
_PROBLEM: dict[str, dict[str, float | str]] = {
    "Geometry": {"material": "carbon", "shape": "brick"}
    | {f"{x}{end}": at for x in "xyz" for end, at in (("Min", 0), ("Max", 10000))},
    "Material": {
        "name": "carbon",
        "mass": 12.011,
        "nIsotopes": 20,
        "nReactions": 9,
        "sourceRate": 1e10,
        "totalCrossSection": 1.5,
        "absorptionCrossSection": "flat",
        "fissionCrossSection": "flat",
        "scatteringCrossSection": "flat",
        "absorptionCrossSectionRatio": 0.04,
        "fissionCrossSectionRatio": 0.05,
        "scatteringCrossSectionRatio": 1,
    },
    "CrossSection": {"name": "flat", "A": 0, "B": 0, "C": 0, "D": 0, "E": 1, "nuBar": 1.6},
}


@rfm.simple_test
class quicksilver(ProgramTest, NodesMixin, ThreadsMixin):
    """Monte Carlo transport of particles, one rank per core or socket (weak scaling)."""

    workload = "quicksilver"
    stack = "proxyapps"
    package = "quicksilver"
    program = executable = "qs"
    within_block = ("layout", "edge", "particles", "steps")

    #: Cells along the edge of each rank's cube, particles of each cell, and time steps. Its test of
    #: homogeneity needs about 5,000 particles and steps of each cell.
    edge = variable(int, value=6)
    particles = variable(int, value=500)
    steps = variable(int, value=20)

    def lay_out(self):
        """Write the input: a box of as many cubes as ranks."""
        self.spread(self.ranks_per_node())
        edge = self.same_work(self.edge)
        box = dict(zip("xyz", near_cube(self.num_tasks), strict=True))
        sizes: dict[str, float | str] = {"nSteps": self.steps}
        sizes["nParticles"] = self.particles * edge**3 * self.num_tasks
        for x, ranks in box.items():
            sizes |= {f"{x}Dom": ranks, f"n{x}": edge * ranks, f"l{x}": edge * ranks}
        lines = []
        for name, block in {"Simulation": _SIMULATION | sizes, **_PROBLEM}.items():
            lines += [f"{name}:", *(f"   {key}: {value}" for key, value in block.items()), ""]
        self.executable_opts = ["-i", self.input_file("coral2_p1.inp", "\n".join(lines))]


short_form(quicksilver, edge=3, particles=1000, steps=5)


def _table(stdout: str) -> list[dict[str, str]]:
    """The lines of the steps, each by its columns."""
    names = last_match(r"^cycle\s+start\s.*$", stdout, "table of cycles").group().split()
    lines = re.findall(r"^ +\d+(?: +\S+){16} *$", stdout, re.MULTILINE)
    return [dict(zip(names, line.split(), strict=False)) for line in lines]


def _steps_done(stdout: str) -> float:
    return sum(int(row["cycle"]) == step for step, row in enumerate(_table(stdout)))


def _sum_of(column: str) -> Callable[[str], float]:
    return lambda stdout: sum(float(row[column]) for row in _table(stdout))


WORKLOAD = Workload(
    title="Quicksilver, CORAL-2 problem 1",
    fom="segments of particles tracked per second",
    unit="1/s",
    better="higher",
    figure="rate_1_s",
    error=r"^\s*FAIL:: (.*?)\s*$",
    numbers={
        "tests_passed": count(r"^\s*PASS:: "),
        "steps": "nSteps:",
        "steps_done": _steps_done,
        "segments": _sum_of("num_seg"),
        "tracking_s": _sum_of("cycleTracking"),
        "printed_1_s": "Figure Of Merit",
        "ranks": "Number of MPI ranks     :",
    },
    # As the first rank timed it.
    derived={"rate_1_s": lambda run: run.segments / run.tracking_s},
    extra=("segments", "steps", "ranks"),
    proof={
        # Ratios of reactions, reactions and crossings, lost particles, homogeneity.
        "the program's four tests of the problem passed": Within("tests_passed", 4, 4),
        "all steps made": Near("steps_done", lambda run: run.steps),
        # That has the slowest rank's time, rounded to four digits.
        "rate within 5 % of its own": Near("rate_1_s", lambda run: run.printed_1_s, 0.05),
    },
)
