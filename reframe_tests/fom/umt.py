"""UMT (Teton): unknowns solved per second, proved by the balance of radiation energy."""

from __future__ import annotations

import re
from math import prod

from reframe_tests.fom.base import FLOAT, Fom, FomError, last_match, last_number, require_close

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
