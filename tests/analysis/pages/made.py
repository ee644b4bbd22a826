"""Makes a year of nights of a machine. Nothing here was measured."""

from datetime import date, timedelta

import numpy as np
import polars as pl

from analysis.history.alarms import survey
from analysis.pages.across import MachineHistory
from analysis.report.table import COLUMNS

NIGHTS, CASES = 365, 12
_FIRST_NIGHT = date(2025, 1, 6)
#: Index of the first night in which the first case is slower.
_SLOWER_FROM = 300
#: Series of a case: arm, quantity, unit, whether lower or higher is better, and usual value.
_SERIES = (
    ("off", "fom", "s", "lower", 100.0),
    ("on", "fom", "s", "lower", 130.0),
    ("on", "slowdown", "1", "lower", 1.3),
)


def made_nights(machine: str, cases: int) -> pl.DataFrame:
    """Return nights in the form of `nights_of`.

    From night 300 on, times of the first case are 5 % longer.
    """
    rng = np.random.default_rng(7)
    parts = []
    for case in range(cases):
        for arm, quantity, unit, better, level in _SERIES:
            value = level * np.exp(0.01 * rng.standard_normal(NIGHTS))
            if case == 0 and quantity == "fom":
                value[_SLOWER_FROM:] *= 1.05
            part = pl.DataFrame({"value": value, "low": value * 0.99, "high": value * 1.01})
            parts.append(
                part.with_columns(
                    machine=pl.lit(machine),
                    campaign=pl.lit("nightly"),
                    run=pl.Series([f"run-{night}" for night in range(NIGHTS)]),
                    started_s=pl.Series([1736190000.0 + 86400 * night for night in range(NIGHTS)]),
                    night=pl.Series([_FIRST_NIGHT + timedelta(night) for night in range(NIGHTS)]),
                    case=pl.lit("stream" if case == 0 else f"workload{case}"),
                    arm=pl.lit(arm),
                    quantity=pl.lit(quantity),
                    unit=pl.lit(unit),
                    better=pl.lit(better),
                    verdict=pl.lit("slower under RDMA writes" if quantity == "slowdown" else None),
                    nodes=pl.lit("n1"),
                )
            )
    return pl.concat(parts, how="vertical_relaxed")


def made_history(machine: str, *, emulated: bool = False, cases: int = CASES) -> MachineHistory:
    """Return a machine with its nights, and the alarms that they raise."""
    nights = made_nights(machine, cases)
    surveyed = survey(nights, pl.DataFrame(schema=COLUMNS))
    reports = {"run-364": "../../run-364/report/report.html"}
    return MachineHistory(
        machine=machine,
        nights=nights,
        alarms=surveyed.alarms,
        watched=surveyed.watched,
        emulated_runs=frozenset(nights["run"] if emulated else ()),
        reports=reports,
    )
