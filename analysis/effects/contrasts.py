"""The price and the gain of a level of a factor, from pairs.

A remedy is a level of a factor, for example a reserved core or a tool wrapped around the ranks. Its
price is its cost without writes: the baseline at the level against the baseline at the first level.
Its gain is its benefit under writes: an effect at the first level against the same effect at the
level. Prices and gains compare runs of the same pair, and always have an interval.

Some factors of the writes only move the same traffic to another place. Their levels are remedies
too, but have no price, since nothing is moved without writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from analysis.effects.result import Result
from analysis.samples.pairs import counted_runs, parsed_levels
from analysis.statistics import evidence
from analysis.statistics.aligned_ranks import slowdown, with_zero_baselines
from analysis.statistics.interval import Estimate, Interval
from records.arms import arm_and_levels, in_table_order, treatment_name
from records.groups import grouped
from records.sample import Level

#: The factor of the writes that baselines also have, at level 0.
_RATE_FACTOR = "rate"
#: Factors of the writes that move the same traffic to another NUMA node or to another rail.
_PLACEMENT_FACTORS = ("comm_node", "writer_rail")
#: The chance that at least one price is wrongly shown to differ from 1. Gains have the same chance.
_ERROR_LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A level of one factor against this factor's first level. All other levels are equal."""

    #: Name of the case.
    case: str
    #: The factor and its level.
    factor: str
    level: Level
    #: The first level, which treatment names omit.
    reference: Level
    #: Levels of other factors with prices or gains, the same in both treatments. First levels are
    #: left out.
    at: dict[str, Level]
    #: A price is measured without writes, a gain under them.
    kind: Literal["price", "gain"]
    #: Names of the treatments at `level` and at `reference`.
    treatment: str
    against: str
    #: Pairs in which both runs count.
    pairs: int
    #: Price: time at the level / time at the first level; above 1 it costs. Gain: time at the first
    #: level / time at the level; above 1 it helps. None below six pairs.
    ratio: Estimate | None
    #: The interval that encloses the intervals of the repeated baselines at both levels.
    noise_floor: Interval | None
    #: Unit of the figures of merit.
    unit: str
    #: True if the ratio is shown to differ from 1. The chance of an error is bounded over all
    #: prices of the run, or over all its gains.
    shown: bool = False


class _Treatment(NamedTuple):
    """A treatment of one case. Its role is baseline or effect."""

    name: str
    #: Name of its baseline; None if it is a baseline.
    baseline: str | None
    factors: dict[str, Level]
    #: Unit of its figure of merit, and whether a higher figure is better.
    unit: str
    higher_is_better: bool


class _Comparison(NamedTuple):
    """A treatment at a level of a factor, and the treatment at the factor's first level."""

    treatment: _Treatment
    reference: _Treatment
    factor: str
    #: Levels of other factors with prices or gains; first levels are left out.
    other_levels: dict[str, Level]


def contrasts(samples: pl.DataFrame, results: Sequence[Result]) -> list[Contrast]:
    """Return the prices and gains of every case.

    `samples` has the samples as `pairs.judge_samples` returns them.
    """
    floors = {(row.case, row.baseline): row.noise_floor for row in results}
    estimates: list[tuple[Contrast, float]] = []
    for case in samples["case"].unique(maintain_order=True):
        case_samples = samples.lazy().filter(pl.col("case") == case)
        treatments = _treatments(case_samples)
        if comparisons := list(_comparisons(treatments)):
            runs = counted_runs(case_samples, "fom").pivot(
                "arm", on_columns=[*treatments], index=["block", "pair"], values="fom"
            )
            estimates += [
                _estimate(str(case), runs, floors, comparison) for comparison in comparisons
            ]
    # A ladder has the p values of levels that are tested in turn. A contrast is tested on its own.
    ladders_by_kind = grouped((contrast.kind, [p]) for contrast, p in estimates)
    shown_by_kind = {
        kind: iter(evidence.count_levels_shown(ladders, _ERROR_LEVEL))
        for kind, ladders in ladders_by_kind.items()
    }
    return [
        replace(contrast, shown=bool(next(shown_by_kind[contrast.kind])))
        for contrast, _ in estimates
    ]


def _treatments(case_samples: pl.LazyFrame) -> dict[str, _Treatment]:
    """Baselines and effects of one case, by name.

    Effects whose timetable had no writer are left out, as at a small scale: without traffic there
    is nothing to gain.
    """
    columns = ("arm", "baseline", "factors", "fom_unit", "fom_better")
    is_baseline, is_effect = (pl.col("role") == role for role in ("baseline", "effect"))
    has_writers = pl.col("timetable").fill_null(1) > 0
    rows = case_samples.filter(is_baseline | (is_effect & has_writers)).select(columns).unique()
    by_name = {
        arm: _Treatment(arm, baseline, parsed_levels(factors), unit, better == "higher")
        for arm, baseline, factors, unit, better in rows.collect().iter_rows()
    }
    return {name: by_name[name] for name in in_table_order(by_name)}


def _comparisons(treatments: Mapping[str, _Treatment]) -> Iterator[_Comparison]:
    """Yield a comparison for every treatment whose name has a level of a factor.

    Treatments at a factor's first level have no level of this factor in their name.
    """
    baselines = [treatment for treatment in treatments.values() if treatment.baseline is None]
    baseline_factors = dict.fromkeys(name for baseline in baselines for name in baseline.factors)
    factors = [name for name in (*baseline_factors, *_PLACEMENT_FACTORS) if name != _RATE_FACTOR]
    for factor in factors:
        for treatment in treatments.values():
            arm, named_levels = arm_and_levels(treatment.name)
            other_named_levels = {
                name: level for name, level in named_levels.items() if name != factor
            }
            reference = treatments.get(treatment_name(arm, other_named_levels))
            if factor in named_levels and reference and reference.unit == treatment.unit:
                other_levels = {
                    name: treatment.factors[name] for name in other_named_levels if name in factors
                }
                yield _Comparison(treatment, reference, factor, other_levels)


def _estimate(
    case: str,
    runs: pl.DataFrame,
    floors: Mapping[tuple[str, str], Interval | None],
    comparison: _Comparison,
) -> tuple[Contrast, float]:
    """The contrast, and the p value of 'no difference' over its interim analyses.

    The p value is not adjusted for other contrasts. `runs`: a row per pair, with the figure of
    merit of each treatment.
    """
    treatment, reference, factor, other_levels = comparison
    floor = floors.get((case, treatment.baseline or treatment.name))
    reference_floor = floors.get((case, reference.baseline or reference.name))
    has_price = treatment.baseline is None
    ratios = runs.select(pl.col(treatment.name) / pl.col(reference.name)).to_series().drop_nulls()
    # Prices of times and gains of rates are these ratios; the others are their inverses.
    sign = -1 if has_price == treatment.higher_is_better else 1
    log_times = with_zero_baselines(sign * np.log(ratios.to_numpy()))
    contrast = Contrast(
        case=case,
        factor=factor,
        level=treatment.factors[factor],
        reference=reference.factors[factor],
        at=other_levels,
        kind="price" if has_price else "gain",
        treatment=treatment.name,
        against=reference.name,
        pairs=len(log_times),
        ratio=slowdown(log_times),
        noise_floor=floor.widened_to(reference_floor) if floor and reference_floor else None,
        unit=treatment.unit,
    )
    return contrast, evidence.p_different(log_times)
