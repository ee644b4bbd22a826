"""Remedies whose levels need jobs of their own, such as `--core-spec`: cases beside each other.

Jobs differ in their nodes and their hour, so the allocation is the unit: one median per allocation
and treatment, two allocations a side at least, and the comparison is that of nights
(`analysis.statistics.nights`).
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from analysis.arms import BASELINE
from analysis.estimate import Result
from analysis.remedies.effect import REMEDIES, RemedyEffect, Speeds
from analysis.remedies.reservation import EstimatedRun, emulated_cases
from analysis.sample import Level
from analysis.statistics.interval import Estimate
from analysis.statistics.location import Values
from analysis.statistics.nights import ratio_of_nights

#: Separates a case's name from its levels: `stream@core_spec=1`.
_LEVELS = "@"


def between_jobs(run: EstimatedRun) -> list[RemedyEffect]:
    """Remedies among the levels that made separate cases, each against the level measured first."""
    effects = [row for row in run.results if row.role == "effect" and row.baseline == BASELINE]
    cases = list(dict.fromkeys(row.case for row in effects))
    found = []
    for factor in REMEDIES:
        groups: dict[str, list[tuple[str, Level]]] = {}
        for case in cases:
            if (split := _without(case, factor)) is not None:
                groups.setdefault(split[0], []).append((case, split[1]))
        for (first, reference), *others in groups.values():
            for case, level in others:
                rows = {row.arm: row for row in effects if row.case == case}
                found += [
                    _effect(run, row, rows[row.arm], factor, (level, reference))
                    for row in effects
                    if row.case == first and row.arm in rows
                ]
    emulated = emulated_cases(run.samples) if found else {}
    return [
        replace(
            each, emulated=list(dict.fromkeys(emulated[each.reference_case] + emulated[each.case]))
        )
        for each in found
    ]


def _without(case: str, factor: str) -> tuple[str, Level] | None:
    """A case's name without its level of `factor`, and that level; None if it names none."""
    name, _, levels = case.partition(_LEVELS)
    parts = levels.split(",")
    own = [part for part in parts if part.startswith(f"{factor}=")]
    if not own:
        return None
    rest = ",".join(part for part in parts if part not in own)
    return f"{name}{_LEVELS}{rest}", own[0].partition("=")[2]


def _effect(
    run: EstimatedRun, without: Result, with_: Result, factor: str, levels: tuple[Level, Level]
) -> RemedyEffect:
    one, other = _speeds(run, without), _speeds(run, with_)
    return RemedyEffect(
        case=with_.case,
        reference_case=without.case,
        workload=without.workload,
        traffic=without.arm,
        treatment=with_.arm,
        factor=factor,
        level=levels[0],
        reference=levels[1],
        at={},
        price=_ratio(one[:, 0], other[:, 0]),
        gain=_ratio(other[:, 1], one[:, 1]),
        rate_b_s=without.writer_rate_b_s,
        written=None,
        pairs=min(len(one), len(other)),
        paired=False,
        emulated=[],
        speeds=Speeds(one, other, []),
    )


def _speeds(run: EstimatedRun, row: Result) -> Values:
    """Median speeds without and with traffic of each allocation that has both."""
    of_block = (
        run.pairs.filter(
            pl.col("case").cast(pl.String) == row.case, pl.col("arm").cast(pl.String) == row.arm
        )
        .group_by("block", maintain_order=True)
        .agg(pl.col("off", "on").median())
    )
    foms = of_block.select("off", "on").to_numpy().astype(float)
    return foms if row.better == "higher" else 1 / foms


def _ratio(x: Values, y: Values) -> Estimate | None:
    if min(len(x), len(y)) < 2:
        return None
    found = ratio_of_nights(list(x), list(y))
    return found.ratio if found else None
