"""UMT with and without writers."""

import re
from math import prod

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, NodesMixin, ThreadsMixin
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import (
    FLOAT,
    Fom,
    FomError,
    Workload,
    last_match,
    last_number,
    require_close,
)


@rfm.simple_test
class umt(rfm.RunOnlyRegressionTest, BinariesMixin, NodesMixin, ThreadsMixin, NimcMixin):
    """Radiation transport, benchmark problem 2, one rank per core or socket (weak scaling)."""

    descr = "UMT under RDMA writes"
    workload = "umt"
    mpi = True
    sourcesdir = None
    program = executable = "test_driver"
    tags = {"single_node"}
    within_block = ("layout", "edge", "cycles")

    #: Tiles along the edge of each rank's mesh (192 elements and 98,304 unknowns per tile); cycles.
    edge = variable(int, value=8)
    cycles = variable(int, value=3)

    def lay_out(self):
        """The same mesh for every rank."""
        self.spread(self.ranks_per_node())
        edges = ",".join([str(self.same_work(self.edge))] * 3)
        self.executable_opts = ["-c", str(self.cycles), "-B", "local", "-d", edges]
        self.executable_opts += ["--benchmark_problem", "2"]


short_form(umt, edge=3, cycles=2)


# Unknowns solved per second, proved by the balance of radiation energy.

#: Largest error of the energy balance that UMT itself accepts, relative to the total energy.
_BALANCE = 1e-9
#: Share of time that UMT spends between the cycles that it times.
_BETWEEN = 0.05


def parse(stdout: str) -> Fom:
    """Unknowns per second over all cycles; also their number, the cycles and the energy balance."""
    cycles = int(last_number("Teton driver: cycles to execute:", stdout))
    walls = [float(wall) for wall in re.findall(rf"CYCLE WALL TIME = {FLOAT} seconds", stdout)]
    if len(walls) != cycles:
        raise FomError(f"UMT made {len(walls)} of {cycles} cycles")
    unknowns = int(last_match(r"^Solving for (\d+) global unknowns", stdout, "unknowns").group(1))
    factors = last_match(
        r"^\((\d+) spatial elements \* (\d+) directions \(angles\) \* (\d+) energy groups\)",
        stdout,
        "numbers of elements, directions and groups",
    )
    require_close("the number of unknowns", unknowns, prod(map(int, factors.groups())), 0)
    rate = last_number("Average number of unknowns/second solved per cycle was", stdout)
    require_close("the rate", rate, unknowns * cycles / sum(walls), _BETWEEN)
    balance = _balance(stdout)
    extra = {"unknowns": float(unknowns), "cycles": float(cycles), "energy_balance": balance}
    return Fom(rate, extra)


def _balance(stdout: str) -> float:
    """Relative error of the last cycle's energies, which must be the one that UMT checked."""
    verdict = last_match(
        rf"^RESULT CHECK PASSED: Energy check \(.*?\) {FLOAT} within", stdout, "passed energy check"
    )
    energies = last_match(
        rf"ERad total =\s*{FLOAT}\s+Energy check =\s*{FLOAT}", stdout, "energy of radiation"
    )
    total, error = (float(text) for text in energies.groups())
    balance = float(verdict.group(1))
    if not total > 0 or not abs(balance) <= _BALANCE:
        raise FomError(f"the energy balance is off by {balance:g} of {total:g}")
    require_close("the energy check", balance, abs(error) / total, 1e-3)
    return balance


WORKLOAD = Workload(
    title="UMT 5, benchmark problem 2",
    fom="unknowns solved per second",
    unit="1/s",
    better="higher",
    sanity="UMT's energy check passed, balance within 1e-9 and consistent with the last cycle",
    parser=parse,
)
