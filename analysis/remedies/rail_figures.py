"""The data of figures 1 to 3 of the multirail study for one run, and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from analysis.contrasts import Contrast
from analysis.estimate import Result
from analysis.remedies.mpi_calls import (
    Calls,
    CallsEffect,
    RunCalls,
    calls,
    changes,
    quiet_runs,
    run_calls,
)
from analysis.remedies.rails import PolicyEffect, policies


@dataclass(frozen=True)
class RailFigures:
    """Figure 1 (`calls`), figure 2 (`policies`), figure 3 (`runs`, and `changes` between them)."""

    calls: list[Calls]
    policies: list[PolicyEffect]
    runs: list[RunCalls]
    changes: list[CallsEffect]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Name of a table of `TABLES` -> its rows."""
        return {
            name: [asdict(row) for row in getattr(self, field)] for name, field in TABLES.items()
        }


#: Table -> its field.
TABLES = {
    "mpi_calls": "calls",
    "rails": "policies",
    "rail_runs": "runs",
    "rail_calls": "changes",
}


def rail_figures(
    counters: pl.DataFrame,
    samples: pl.DataFrame,
    results: Sequence[Result],
    contrasts: Sequence[Contrast],
    margin: float,
) -> RailFigures:
    """From `counters.read_counters`, the `pairs.judged` samples and the estimates of one run."""
    quiet = quiet_runs(counters, samples)
    return RailFigures(
        calls(quiet),
        policies(results, contrasts, margin),
        run_calls(quiet),
        changes(quiet, margin),
    )
