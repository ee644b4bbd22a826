"""Compares two runs: two nights of one machine, or two machines.

They share no pairs, so every ratio is the Hodges-Lehmann estimate between independent sets, with
its distribution-free interval. A change counts only if the whole interval lies beyond 1 and beyond
the noise floors of both runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

import polars as pl

from analysis.estimate import Result
from analysis.pairs import ratio_blocks
from analysis.report.data import RunData
from analysis.report.words import binary, facts
from analysis.statistics.blocks import Scope, scope
from analysis.statistics.two_samples import ratio_between

#: What is compared: the slowdown, or the time for the same work under baseline or treatment.
Metric = Literal["slowdown", "off", "on"]
Change = Literal["worse", "better", "no change", "too few pairs", "noise floor missing"]


@dataclass(frozen=True)
class Comparison:
    """One figure of one case and treatment, this run against the reference; above 1 is worse."""

    case: str
    arm: str
    metric: Metric
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    #: The interval that encloses the noise floors of both runs.
    noise_floor_low: float | None
    noise_floor_high: float | None
    verdict: Change

    def __post_init__(self) -> None:
        if (self.ratio is None) != (self.ratio_low is None or self.ratio_high is None):
            raise ValueError(f"{self.case}/{self.arm}: ratio without its interval")

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """A fact that differs between two runs."""

    what: str
    reference: str
    this: str


def compare(reference: RunData, this: RunData) -> list[Comparison]:
    """Compares every case and effect that both runs hold, by the treatment's name."""
    old = {(row.case, row.arm): row for row in reference.results}
    found = []
    for row in this.results:
        before = old.get((row.case, row.arm))
        if before is not None and row.role == "effect" and _figure(before) == _figure(row):
            found += _of_row(reference, before, this, row)
    return found


def _figure(row: Result) -> tuple[str, str]:
    """Unit and direction, which must agree for figures of merit to be compared."""
    return row.unit, row.better


def _of_row(reference: RunData, before: Result, this: RunData, row: Result) -> list[Comparison]:
    blocks = [ratio_blocks(run.pairs, row.case, row.arm) for run in (reference, this)]
    # Allocations are the values only if both runs have enough of them.
    by_block = all(scope(of_run) is Scope.ANY for of_run in blocks)
    slowdowns = [_values(of_run, by_block) for of_run in blocks]
    comparisons = [_judge(before, row, "slowdown", slowdowns[0], slowdowns[1])]
    metrics: tuple[Metric, Metric] = ("off", "on")
    for metric in metrics:
        times = [_times(run, row, metric, by_block) for run in (reference, this)]
        comparisons.append(_judge(before, row, metric, times[0], times[1]))
    return comparisons


def _values(blocks: Sequence[Sequence[float]], by_block: bool) -> list[float]:
    if by_block:
        return [median(block) for block in blocks]
    return [value for block in blocks for value in block]


def _times(run: RunData, row: Result, metric: Metric, by_block: bool) -> list[float]:
    """Time for the same work: the figure of merit itself, or one over it for a rate."""
    chosen = run.pairs.filter(pl.col("case") == row.case, pl.col("arm") == row.arm)
    rate = row.better == "higher"
    time = (1 / pl.col(metric) if rate else pl.col(metric)).alias("time")
    blocks = chosen.group_by("block", maintain_order=True).agg(time)["time"].to_list()
    return _values(blocks, by_block)


def _judge(
    before: Result, row: Result, metric: Metric, old: Sequence[float], new: Sequence[float]
) -> Comparison:
    estimate = ratio_between(new, old)
    lows = [r.noise_floor_low for r in (before, row) if r.noise_floor_low is not None]
    highs = [r.noise_floor_high for r in (before, row) if r.noise_floor_high is not None]
    floor = (min(lows), max(highs)) if len(lows) == len(highs) == 2 else None
    verdict: Change = "no change"
    if estimate is None:
        verdict = "too few pairs"
    elif floor is None:
        verdict = "noise floor missing"
    elif estimate.low > max(1.0, floor[1]):
        verdict = "worse"
    elif estimate.high < min(1.0, floor[0]):
        verdict = "better"
    return Comparison(
        case=row.case,
        arm=row.arm,
        metric=metric,
        ratio=estimate.value if estimate else None,
        ratio_low=estimate.low if estimate else None,
        ratio_high=estimate.high if estimate else None,
        noise_floor_low=floor[0] if floor else None,
        noise_floor_high=floor[1] if floor else None,
        verdict=verdict,
    )


def differences(reference: RunData, this: RunData) -> list[Difference]:
    """Facts of machine, software, campaign and provenance that differ between the runs."""
    old, new = _facts(reference), _facts(this)
    return [
        Difference(name, old.get(name, "absent"), new.get(name, "absent"))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _measured(run: RunData) -> dict[str, str]:
    """Case and effect -> its unit and its writes: `measured in s, write of 64 KiB over tcp ...`."""
    made = run.samples.filter(pl.col("role") == "effect", pl.col("writers") > 0)
    kinds = ("direction", "message_b", "transport", "injector")
    of: dict[tuple[str, str], list[str]] = {}
    for case, arm, direction, message_b, transport, injector in (
        made.select("case", "arm", *kinds).unique(maintain_order=True).iter_rows()
    ):
        text = f"{direction or 'write'} of {binary(message_b)} over {transport} by {injector}"
        of.setdefault((case, arm), []).append(text)
    return {
        f"{row.case} {row.arm}": ", ".join(
            [f"measured in {row.unit}", *sorted(of.get((row.case, row.arm), []))]
        )
        for row in run.results
        if row.role == "effect"
    }


def _facts(run: RunData) -> dict[str, str]:
    header = run.header
    found = {"machine": header.machine, "campaign": header.campaign, "digest": header.digest}
    # What only one run has, or has in another unit, cannot be compared: it is listed here.
    found |= _measured(run)
    found["commit"] = header.commit or "unknown"
    found |= dict(facts({"version": header.versions}))
    found |= dict(facts(header.facts))
    values: dict[str, list[str]] = {}
    for record in run.provenance.values():
        for name, text in facts({"provenance": record}):
            values.setdefault(name, []).append(text)
    return found | {name: " | ".join(sorted(set(texts))) for name, texts in values.items()}
