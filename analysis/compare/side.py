"""One side of a comparison: nights of one machine, and what each of them measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import polars as pl

from analysis.caveats import emulations
from analysis.errors import InputError
from analysis.estimate import Result
from analysis.report.data import RunData
from analysis.sample import Better
from analysis.statistics.interval import CONFIDENCE, Estimate, median_interval

#: What is compared: the slowdown, or the figure of merit under baseline or treatment.
Metric = Literal["slowdown", "off", "on"]
#: Metric -> its name in tables and figures.
METRICS: dict[Metric, str] = {"slowdown": "slowdown", "off": "baseline", "on": "under writes"}


class Quantity(NamedTuple):
    """What both sides must have measured alike to be compared."""

    case: str
    #: Name of the treatment; of the baseline if `metric` is `off`.
    arm: str
    metric: Metric
    #: Of the figure of merit.
    unit: str
    better: Better

    @property
    def is_rate(self) -> bool:
        """Whether a higher value is better, so that its ratio is taken the other way round."""
        return self.metric != "slowdown" and self.better == "higher"


#: One estimate per night.
Nights = Mapping[Quantity, Sequence[Estimate]]


@dataclass(frozen=True)
class Side:
    """Runs of one campaign on one machine; each is a night."""

    runs: tuple[RunData, ...]

    def __post_init__(self) -> None:
        for name in ("machine", "campaign"):
            found = sorted({str(getattr(run.header, name)) for run in self.runs})
            if len(found) > 1:
                raise InputError(
                    f"{', '.join(run.header.run for run in self.runs)}: the runs of one side must"
                    f" have the same {name}, not {' and '.join(found)}"
                )

    @property
    def machine(self) -> str:
        """The machine of all its runs."""
        return self.runs[0].header.machine

    @property
    def campaign(self) -> str:
        """The campaign of all its runs."""
        return self.runs[0].header.campaign

    @property
    def names(self) -> list[str]:
        """Names of its runs."""
        return [run.header.run for run in self.runs]

    def nights(self) -> Nights:
        """One estimate per quantity and night; a night with too few pairs is left out."""
        found: dict[Quantity, list[Estimate]] = {}
        for run in self.runs:
            for quantity, estimate in of_night(run).items():
                found.setdefault(quantity, []).extend([estimate] if estimate else [])
        return found

    def emulations(self) -> list[str]:
        """Caveats of the transports of its writes."""
        names = {str(name) for run in self.runs for name in run.samples["transport"].unique()}
        return emulations(sorted(names))


def pair_up(reference: Sequence[RunData], this: Sequence[RunData]) -> tuple[Side, Side]:
    """The two sides. Raises InputError if a side is empty or mixed, or a run is given twice."""
    names = [run.header.run for run in (*reference, *this)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{twice[0]}: each run must be given once; a copy is not another night")
    return Side(tuple(reference)), Side(tuple(this))


def of_night(run: RunData) -> dict[Quantity, Estimate | None]:
    """What one night says of each quantity; None with too few pairs for an interval."""
    found: dict[Quantity, Estimate | None] = {}
    for row in run.results:
        if row.role == "effect":
            pairs = run.pairs.filter(pl.col("case") == row.case, pl.col("arm") == row.arm)
            baseline = Quantity(row.case, row.baseline, "off", row.unit, row.better)
            # Effects that share a baseline share its time, which is compared once.
            found.setdefault(baseline, median_interval(pairs["off"].to_list()))
            found[baseline._replace(arm=row.arm, metric="slowdown")] = _slowdown(row)
            times = median_interval(pairs["on"].to_list())
            found[baseline._replace(arm=row.arm, metric="on")] = times
    return found


def _slowdown(row: Result) -> Estimate | None:
    if row.slowdown is None or row.slowdown_low is None or row.slowdown_high is None:
        return None
    # The rows hold no confidence; every interval has at least this one.
    return Estimate(row.slowdown, row.slowdown_low, row.slowdown_high, CONFIDENCE)
