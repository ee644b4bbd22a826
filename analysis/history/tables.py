"""Tables of a history, and the series in them.

One row per run, and one per night and watched quantity. A series is one watched quantity of a
machine: a value per measured night, larger is worse.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

#: Number of the tables' schema; stored with every file.
SCHEMA_VERSION = 1

#: Before a counter's role, which is watched like `fom` (median of an arm), `slowdown` and
#: `writer_rate`.
COUNTER = "counter:"

#: How a night ended; one that was not run has no run, and is known from the calendar.
Outcome = Literal["measured", "slower", "not run", "inconclusive", "machine failed"]

#: One row per run.
RUNS: dict[str, pl.DataType] = {
    "machine": pl.String(),
    "campaign": pl.String(),
    "run": pl.String(),
    "started_s": pl.Float64(),
    # Null while unfinished.
    "finished_s": pl.Float64(),
    "digest": pl.String(),
    "commit": pl.String(),
    "samples": pl.Int64(),
    "rejected": pl.Int64(),
    # Null if nobody recorded it.
    "outcome": pl.String(),
    # JSON object of text: flat name -> value of what made the run (kernel, microcode, MPI, ...).
    "made": pl.String(),
    # Nodes of all samples, sorted and joined with commas.
    "nodes": pl.String(),
    # Size of the run's folder, and SHA-256 over its sample files.
    "size_b": pl.Int64(),
    "sha256": pl.String(),
    # Head of its chain; null of runs without one, and of entries of earlier versions.
    "head": pl.String(),
}

#: One row per run and watched quantity; the four of `KEY` name what is watched on a machine.
NIGHTS: dict[str, pl.DataType] = {
    "machine": pl.String(),
    "campaign": pl.String(),
    "run": pl.String(),
    "started_s": pl.Float64(),
    # Day of the start, UTC.
    "night": pl.Date(),
    "case": pl.String(),
    # The treatment; of `fom` of a baseline the baseline's name.
    "arm": pl.String(),
    "quantity": pl.String(),
    "unit": pl.String(),
    # `higher` or `lower`.
    "better": pl.String(),
    # The night's median (slowdown: estimate), with its interval where there is one.
    "value": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    # Runs or pairs that it is made of.
    "count": pl.Int64(),
    # Of a slowdown; null otherwise.
    "verdict": pl.String(),
    # Target nodes, sorted and joined with commas.
    "nodes": pl.String(),
}
KEY = ("campaign", "case", "arm", "quantity")


#: The runs of one night begin within so many seconds.
NIGHT_S = 18 * 3600.0


@dataclass(frozen=True)
class Watched:
    """What is watched on a machine."""

    machine: str
    campaign: str
    case: str
    arm: str
    quantity: str
    unit: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Its names on the machine, as `tables.KEY`."""
        return self.campaign, self.case, self.arm, self.quantity


@dataclass(frozen=True)
class Series(Watched):
    """The nights of one quantity, in order.

    A night that was not measured has no entry: nothing is interpolated.
    """

    better: str
    nights: list[date]
    #: Logarithms with the sign by which larger is worse.
    worse: NDArray[np.float64]
    #: The run of each night, its first: others repeat it, and do not change what was seen then.
    #: A run that begins within `NIGHT_S` of it belongs to the same night, also after midnight.
    runs: list[str]
    #: Target nodes of that run.
    nodes: list[list[str]]

    def names(self) -> dict[str, Any]:
        """What is watched, as fields of the records made of it."""
        return {each.name: getattr(self, each.name) for each in fields(Watched)}

    def value(self, worse: float) -> float:
        """An entry of `worse` as a value in `unit`."""
        return float(np.exp(self.sign * worse))

    @property
    def sign(self) -> int:
        """1 if a larger value is worse, -1 if it is better."""
        return -1 if self.better == "higher" else 1


def series_of(nights: pl.DataFrame) -> list[Series]:
    """The series of a table of nights, sorted by name; values that have no logarithm are left out.

    A quantity whose unit or better direction changed is a new series from then on: of those, the
    latest is returned.
    """
    rows = latest_kind(nights.filter(pl.col("value").is_finite() & (pl.col("value") > 0)))
    sign = pl.when(pl.col("better") == "higher").then(-1.0).otherwise(1.0)
    named = ("machine", *KEY)
    ordered = rows.with_columns(worse=pl.col("value").log() * sign).sort(*named, "started_s")
    groups = ordered.partition_by(*named, maintain_order=True)
    return [_series(_first_of_nights(group)) for group in groups]


def _first_of_nights(rows: pl.DataFrame) -> pl.DataFrame:
    """The first run of each night, of one series in order of time."""
    first: list[int] = []
    began_s = -NIGHT_S
    for at, started_s in enumerate(rows["started_s"]):
        if started_s - began_s >= NIGHT_S:
            first.append(at)
            began_s = started_s
    return rows[first]


def latest_kind(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the unit and better direction of the last night of their series."""
    last = pl.col("unit", "better").sort_by("started_s").last().over("machine", *KEY)
    kinds = rows.with_columns(last.name.prefix("last_"))
    same = (pl.col("unit") == pl.col("last_unit")) & (pl.col("better") == pl.col("last_better"))
    return kinds.filter(same).drop("last_unit", "last_better")


def _series(group: pl.DataFrame) -> Series:
    named = group.select("machine", *KEY, "unit", "better").row(0, named=True)
    return Series(
        **named,
        nights=group["night"].to_list(),
        worse=group["worse"].to_numpy(),
        runs=group["run"].to_list(),
        nodes=[(text or "").split(",") if text else [] for text in group["nodes"].to_list()],
    )


def nights_a_year(series: list[Series], until: date) -> float:
    """Measured nights in a year, by the calendar: those of the year up to `until`, or fewer.

    Without a night before `until`, every night of a year.
    """
    ordinals = {night.toordinal() for each in series for night in each.nights}
    year = [day for day in ordinals if 0 < until.toordinal() - day <= _YEAR_NIGHTS]
    if not year:
        return _YEAR_NIGHTS
    return _YEAR_NIGHTS * len(year) / (until.toordinal() - min(year))


_YEAR_NIGHTS = 365
