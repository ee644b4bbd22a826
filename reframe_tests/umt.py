"""UMT with and without RDMA writes."""

import re
from math import prod

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import NodesMixin, ProgramTest, ThreadsMixin
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import (
    FLOAT,
    Near,
    Within,
    Workload,
    last_match,
    number,
    optional_number,
)


@rfm.simple_test
class umt(ProgramTest, NodesMixin, ThreadsMixin):
    """Radiation transport, benchmark problem 2, one rank per core or socket (weak scaling)."""

    workload = "umt"
    program = executable = "test_driver"
    within_block = ("layout", "edge", "cycles")

    #: Tiles along the edge of each rank's mesh. A tile has 192 elements and 98,304 unknowns.
    edge = variable(int, value=8)
    #: Cycles of the solver.
    cycles = variable(int, value=3)

    def lay_out(self):
        """Give every rank a mesh of the same size."""
        self.set_ranks_per_node(self.ranks_per_node())
        edges = ",".join([str(self.edge_of_same_work(self.edge))] * 3)
        self.executable_opts = ["-c", str(self.cycles), "-B", "local", "-d", edges]
        self.executable_opts += ["--benchmark_problem", "2"]


add_short_form(umt, edge=3, cycles=2)


_UNKNOWNS = r"^Solving for (\d+) global unknowns"
_RATE = (
    r"^(?:Average number of unknowns/second solved per cycle|Throughput of iterative solver)"
    rf" was {FLOAT}"
)


def _cycle_times(stdout: str) -> list[float]:
    """Return the time of each cycle, seconds."""
    return [float(time_s) for time_s in re.findall(rf"CYCLE WALL TIME = {FLOAT} seconds", stdout)]


def _unknowns_of_mesh(stdout: str) -> float:
    """Return the product of the printed numbers of elements, directions and groups."""
    factors_pattern = (
        r"^\((\d+) spatial elements \* (\d+) directions \(angles\) \* (\d+) energy groups\)"
    )
    return prod(map(int, last_match(factors_pattern, stdout, "elements and directions").groups()))


def _last_balance(stdout: str) -> float:
    """Return the relative error of the last cycle's energies."""
    energies_pattern = rf"ERad total =\s*{FLOAT}\s+Energy check =\s*{FLOAT}"
    energies = last_match(energies_pattern, stdout, "energy of radiation")
    total, error = map(number, energies.groups())
    return abs(error) / total


def _rate_of_times(stdout: str) -> float:
    """Return the rate that follows from UMT's times, by the formula of its version.

    Until July 2024, UMT divided unknowns * cycles by the time of all cycles. Since then, it divides
    unknowns * iterations by the time of the run. At first it multiplied the result by the
    iterations per cycle; later it divided by them. The rate closer to the printed one is returned.
    """
    unknowns = number(last_match(_UNKNOWNS, stdout, "number of unknowns")[1])
    cycle_times = _cycle_times(stdout)
    if not re.search(r"^Throughput of iterative solver", stdout, re.MULTILINE):
        # UMT spends up to 5 % of the time between its cycles, where it is not counted.
        return unknowns * len(cycle_times) / sum(cycle_times)
    printed_1_s = number(last_match(_RATE, stdout, "rate")[1])
    wall_s, iterations = (
        number(last_match(rf"^{label}: {FLOAT}", stdout, f"'{label}'")[1])
        for label in ("Total wall time for run", "Total number of flux solver iterations for run")
    )
    iteration_rate = unknowns * iterations / max(wall_s, sum(cycle_times))
    iterations_per_cycle = iterations / len(cycle_times)
    rates = (iteration_rate * iterations_per_cycle, iteration_rate / iterations_per_cycle)
    return min(rates, key=lambda rate_1_s: abs(rate_1_s - printed_1_s))


WORKLOAD = Workload(
    title="UMT 5, benchmark problem 2",
    fom="unknowns solved per second",
    unit="1/s",
    better="higher",
    figure="rate_1_s",
    numbers={
        "ranks": optional_number(r"^Teton driver: number of MPI ranks: (\d+)"),
        "cycles": "Teton driver: cycles to execute:",
        "cycles_done": lambda stdout: len(_cycle_times(stdout)),
        "unknowns": re.compile(_UNKNOWNS),
        "unknowns_of_mesh": _unknowns_of_mesh,
        "rate_1_s": re.compile(_RATE),
        "rate_of_times": _rate_of_times,
        "energy_balance": re.compile(rf"^RESULT CHECK PASSED: Energy check \(.*?\) {FLOAT} within"),
        "last_balance": _last_balance,
    },
    extra=("unknowns", "cycles", "energy_balance"),
    proof={
        "all cycles done": Near("cycles_done", lambda numbers: numbers.cycles),
        "as many unknowns as the mesh has": Near(
            "unknowns", lambda numbers: numbers.unknowns_of_mesh
        ),
        "rate consistent with the times": Near(
            "rate_1_s", lambda numbers: numbers.rate_of_times, 0.05
        ),
        "UMT's energy check passed": r"^RESULT CHECK PASSED: Energy check",
        "balance within 1e-9": Within("energy_balance", -1e-9, 1e-9),
        "balance consistent with the last cycle": (
            Near("energy_balance", lambda numbers: numbers.last_balance, 1e-3)
        ),
    },
)
