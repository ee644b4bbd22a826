"""Price and gain of each remedy that a run tried, from its pairs: figures 6b and 6c.

Levels of the application, such as reserved cores, have a baseline of their own and so a price.
Levels of the writers, such as a throttled rate, share the baseline: their price is what they make
the writes slower by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from analysis.effects.estimate import Result, by_level
from analysis.effects.verdict import emulations
from analysis.remedies.effect import REMEDIES, RemedyEffect, Speeds, of_nights
from analysis.remedies.throttling import RATE
from analysis.report.data import RunData
from analysis.samples.pairs import of_treatment
from analysis.statistics.aligned_ranks import against_zero, slowdown
from analysis.statistics.interval import Estimate
from analysis.statistics.location import Values
from records.arms import BASELINE, arm_of, name_of, parts_of
from records.groups import grouped
from records.notes import Note
from records.sample import Level

_TOOL = "tool"


def remedy_effects(run: RunData) -> list[RemedyEffect]:
    """The remedies of a run: the application's, the writers', and those in jobs of their own."""
    found = [*_of_application(run), *_of_writers(run), *_between_jobs(run)]
    emulated = emulated_cases(run.samples) if found else {}
    both = (dict.fromkeys(emulated[row.reference_case] + emulated[row.case]) for row in found)
    return [replace(row, emulated=list(why)) for row, why in zip(found, both, strict=True)]


def _of_application(run: RunData) -> list[RemedyEffect]:
    prices = {
        (row.case, row.treatment, row.against): row for row in run.contrasts if row.kind == "price"
    }
    rows = {(row.case, row.arm): row for row in run.results}
    found = []
    for gain in run.contrasts:
        # Runs wrapped by a tool are for its counts.
        if gain.kind != "gain" or gain.factor not in REMEDIES or _TOOL in gain.at:
            continue
        without, with_ = (rows[gain.case, name] for name in (gain.against, gain.treatment))
        price = prices.get((gain.case, with_.baseline, without.baseline))
        if price is not None:
            figures = price.ratio, gain.ratio
            found.append(_paired(run, without, with_, gain.factor, gain.at, figures))
    return found


def _of_writers(run: RunData) -> list[RemedyEffect]:
    """Each level of a factor of the writes against the first one, of rates the highest.

    Only with the application as in the plain baseline.
    """
    plain = [
        row
        for row in run.results
        if not parts_of(row.baseline)[1] and arm_of(row.arm).writing == "continuous"
    ]
    alike = [(factor, rows) for factor in REMEDIES for rows in by_level(plain, factor).values()]
    found = []
    for factor, rows in sorted(alike, key=lambda each: plain.index(each[1][0])):
        first = _first(rows, factor)
        others = (row for row in rows if row.factors[factor] != first.factors[factor])
        found += [_paired(run, first, row, factor, {}) for row in others]
    return found


def _first(rows: Sequence[Result], factor: str) -> Result:
    """What a level is compared with: the highest rate, or the level that names leave out."""
    if factor == RATE:
        return max(rows, key=lambda row: row.writer_rate_b_s or 0.0)
    return min(rows, key=lambda row: factor in parts_of(row.arm)[1])


def _paired(
    run: RunData,
    without: Result,
    with_: Result,
    factor: str,
    at: dict[str, Level],
    figures: tuple[Estimate | None, Estimate | None] | None = None,
) -> RemedyEffect:
    """`figures`: price and gain, if known already."""
    columns = ["block", "pair", "off", "on", "writer_rate_b_s"]
    one, other = (
        of_treatment(run.pairs, row.case, row.arm).select(columns) for row in (without, with_)
    )
    # The pairs that hold both treatments and their baselines.
    both = one.join(other, on=columns[:2], suffix="_with", maintain_order="left")
    foms = both.select("off", "on", "off_with", "on_with").to_numpy().astype(float)
    speeds = foms if without.better == "higher" else 1 / foms
    rates = both.select("writer_rate_b_s", "writer_rate_b_s_with").to_numpy().astype(float)
    price, gain = figures or (None, _ratio(speeds[:, 3] / speeds[:, 1]))
    return _of_levels(
        *(without, with_, factor, with_.factors[factor], without.factors[factor]),
        at=at,
        price=price,
        gain=gain,
        written=_ratio(rates[:, 1] / rates[:, 0]),
        pairs=both.height,
        paired=True,
        speeds=Speeds(speeds[:, :2], speeds[:, 2:], both.select("block", "pair").rows()),
    )


def _of_levels(
    without: Result, with_: Result, factor: str, level: Level, reference: Level, **figures: Any
) -> RemedyEffect:
    """What two levels are, whether their runs are paired or not; `figures`: the other fields."""
    return RemedyEffect(
        case=with_.case,
        reference_case=without.case,
        workload=without.workload,
        traffic=without.arm,
        treatment=with_.arm,
        factor=factor,
        level=level,
        reference=reference,
        rate_b_s=without.writer_rate_b_s,
        emulated=[],
        **figures,
    )


def _ratio(ratios: Values) -> Estimate | None:
    known = np.isfinite(ratios).all()
    return slowdown(against_zero(np.log(ratios))) if known else None


def emulated_cases(samples: pl.DataFrame) -> dict[str, list[str]]:
    """Case -> why its figures say nothing of an RDMA network card; empty if they do."""
    kinds = samples.lazy().select("case", "transport", "same_host").unique().group_by("case")
    of_case = kinds.agg("transport", pl.col("same_host").any()).collect()
    return {
        str(case): emulations(sorted(set(names))) or ([Note.SAME_HOST()] if same_host else [])
        for case, names, same_host in of_case.iter_rows()
    }


# Remedies whose levels need jobs of their own, such as `--core-spec`: cases of their own.
#
# Jobs differ in their nodes and their hour, so the allocation is the unit: one median per
# allocation and treatment, two allocations a side at least, and the comparison is that of nights
# (`analysis.statistics.nights`).


def _between_jobs(run: RunData) -> list[RemedyEffect]:
    """Remedies among the levels that made separate cases, each against the level measured first."""
    effects = [row for row in run.results if row.role == "effect" and row.baseline == BASELINE]
    cases = list(dict.fromkeys(row.case for row in effects))
    found = []
    for factor in REMEDIES:
        named = ((case, *parts_of(case)) for case in cases)
        groups = grouped(
            (name_of(name, levels), (case, level))
            for case, name, levels in named
            if (level := levels.pop(factor, None)) is not None
        )
        for (first, reference), *others in groups.values():
            for case, level in others:
                rows = {row.arm: row for row in effects if row.case == case}
                found += [
                    _unpaired(run, row, rows[row.arm], factor, level, reference)
                    for row in effects
                    if row.case == first and row.arm in rows
                ]
    return found


def _unpaired(
    run: RunData, without: Result, with_: Result, factor: str, level: Level, reference: Level
) -> RemedyEffect:
    one, other = _speeds(run, without), _speeds(run, with_)
    price, gain = of_nights(one[:, 0], other[:, 0]), of_nights(other[:, 1], one[:, 1])
    return _of_levels(
        *(without, with_, factor, level, reference),
        at={},
        price=price.ratio if price else None,
        gain=gain.ratio if gain else None,
        written=None,
        pairs=min(len(one), len(other)),
        paired=False,
        speeds=Speeds(one, other, []),
    )


def _speeds(run: RunData, row: Result) -> Values:
    """Median speeds without and with traffic of each allocation that has both."""
    blocks = of_treatment(run.pairs, row.case, row.arm).group_by("block", maintain_order=True)
    medians = blocks.agg(pl.col("off", "on").median())
    foms = medians.select("off", "on").to_numpy().astype(float)
    return foms if row.better == "higher" else 1 / foms
