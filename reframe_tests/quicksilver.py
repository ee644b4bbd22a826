"""Quicksilver with and without writers."""

import re

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, NodesMixin, ThreadsMixin, near_cube
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import Fom, FomError, Workload, last_match, last_number, require_close

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
class quicksilver(rfm.RunOnlyRegressionTest, BinariesMixin, NodesMixin, ThreadsMixin, NimcMixin):
    """Monte Carlo transport of particles, one rank per core or socket (weak scaling)."""

    descr = "Quicksilver under RDMA writes"
    workload = "quicksilver"
    mpi = True
    sourcesdir = None
    stack = "proxyapps"
    package = "quicksilver"
    program = executable = "qs"
    tags = {"single_node"}
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


# Segments per second, proved by the program's own tests of the benchmark problem.

#: What it tests: ratios of reactions, reactions and crossings, lost particles, homogeneity.
_TESTS = 4
#: By how much its own figure may differ: that has the slowest rank's time, rounded to four digits.
_ROUNDED = 0.05


def parse(stdout: str) -> Fom:
    """Segments per second of tracking, as the first rank timed it; also segments and steps."""
    if failed := re.search(r"^\s*FAIL:: (.*?)\s*$", stdout, re.MULTILINE):
        raise FomError(f"Quicksilver: {failed.group(1)}")
    passed = len(re.findall(r"^\s*PASS:: ", stdout, re.MULTILINE))
    if passed != _TESTS:
        raise FomError(f"Quicksilver passed {passed} of {_TESTS} tests of its problem")
    header = last_match(r"^cycle\s+start\s.*$", stdout, "table of cycles").group().split()
    rows = [row.split() for row in re.findall(r"^ +\d+(?: +\S+){16} *$", stdout, re.MULTILINE)]
    steps = int(last_number("nSteps:", stdout))
    if [int(row[0]) for row in rows] != list(range(steps)):
        raise FomError(f"Quicksilver printed {len(rows)} of {steps} steps")
    segments = sum(int(row[header.index("num_seg")]) for row in rows)
    rate = segments / sum(float(row[header.index("cycleTracking")]) for row in rows)
    require_close("the rate", rate, last_number("Figure Of Merit", stdout), _ROUNDED)
    ranks = last_number("Number of MPI ranks     :", stdout)
    return Fom(rate, {"segments": float(segments), "steps": float(steps), "ranks": ranks})


WORKLOAD = Workload(
    title="Quicksilver, CORAL-2 problem 1",
    fom="segments of particles tracked per second",
    unit="1/s",
    better="higher",
    sanity="the program's four tests of the problem passed, all steps made, rate within 5 % of its"
    " own",
    parser=parse,
)
