"""What a level of a factor costs, and how much it helps; both from pairs.

A remedy is a level: a reserved core, a tool wrapped around the ranks. Its price is its cost
without writes: the baseline at the level against the baseline at the first level. Its gain is its
benefit under writes: an effect at the first level against the same effect at the level. Both
compare runs of the same pair, and always have an interval.

Of the factors of the writes, those that only move the same traffic to another place are remedies
too. They have no price, since nothing is moved without writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from analysis.effects.estimate import Result
from analysis.samples.pairs import counted, levels
from analysis.statistics import looks
from analysis.statistics.aligned_ranks import against_zero, slowdown
from analysis.statistics.interval import Estimate, Interval
from records.arms import in_order, parts_of
from records.groups import grouped
from records.sample import Level

#: The factor of the writes that baselines have as well, at level 0.
_RATE = "rate"
#: Factors of the writes that move the same traffic: to buffers on a NUMA node, or to a rail.
_PLACES = ("comm_node", "writer_rail")
#: The chance that any price, or any gain, is wrongly shown to differ from 1.
_LEVEL = 0.05


@dataclass(frozen=True)
class Contrast:
    """A level of one factor against that factor's first level, all else equal."""

    #: Name of the case.
    case: str
    #: The factor and its level.
    factor: str
    level: Level
    #: The first level, which treatment names omit.
    reference: Level
    #: Levels of other such factors that are not the first ones.
    at: dict[str, Level]
    #: The effect without writes, or under them.
    kind: Literal["price", "gain"]
    #: Names of the treatments at `level` and at `reference`.
    treatment: str
    against: str
    #: Pairs in which both runs count.
    pairs: int
    #: Price: time at the level / time at the first level; above 1 it costs. Gain: time at the first
    #: level / time at the level; above 1 it helps. None below six pairs.
    ratio: Estimate | None
    #: The interval that encloses the repeatability of the baselines at both levels.
    noise_floor: Interval | None
    #: Of the figures of merit.
    unit: str
    #: Whether it is shown to differ from 1, over all prices of the run, or over all its gains.
    shown: bool = False


class _Treatment(NamedTuple):
    """A baseline, or an effect of one case."""

    name: str
    #: Name of its baseline; a baseline names itself.
    baseline: str
    factors: dict[str, Level]
    unit: str
    higher: bool

    @property
    def is_baseline(self) -> bool:
        """Whether it has no writes."""
        return self.baseline == self.name

    def at(self, factors: dict[str, Level]) -> tuple[str, str]:
        """Its arm at these levels, as a key."""
        return parts_of(self.name)[0], json.dumps(factors, sort_keys=True)


class _Comparison(NamedTuple):
    """A treatment and one that differs from it in one factor, at levels of other factors."""

    treatment: _Treatment
    against: _Treatment
    factor: str
    at: dict[str, Level]


def contrasts(marked: pl.DataFrame, results: Sequence[Result]) -> list[Contrast]:
    """Prices and gains of every case, from its samples (`pairs.judged`) and its results."""
    floors = {(row.case, row.baseline): row.noise_floor for row in results}
    estimates: list[tuple[Contrast, float]] = []
    for case in marked["case"].unique(maintain_order=True):
        of_case = marked.lazy().filter(pl.col("case") == case)
        comparisons = list(_comparisons(_treatments(of_case)))
        if comparisons:
            runs = counted(of_case, "fom").pivot("arm", index=["block", "pair"], values="fom")
            # A treatment of which no run counts has no column.
            names = {side.name for of in comparisons for side in (of.treatment, of.against)}
            lacking = sorted(names - {*runs.columns})
            runs = runs.with_columns(pl.lit(None, pl.Float64).alias(name) for name in lacking)
            estimates += [_estimate(str(case), runs, floors, of) for of in comparisons]
    of_kind = grouped((contrast.kind, [p]) for contrast, p in estimates)
    held = {kind: iter(looks.shown(p, _LEVEL)) for kind, p in of_kind.items()}
    return [replace(contrast, shown=bool(next(held[contrast.kind]))) for contrast, _ in estimates]


def _treatments(of_case: pl.LazyFrame) -> list[_Treatment]:
    """Baselines and effects of one case."""
    columns = ("arm", "baseline", "factors", "fom_unit", "fom_better")
    kinds = of_case.filter(pl.col("role").is_in(["baseline", "effect"])).select(columns).unique()
    of = {
        arm: _Treatment(arm, baseline or arm, levels(factors), unit, better == "higher")
        for arm, baseline, factors, unit, better in kinds.collect().iter_rows()
    }
    return [of[name] for name in in_order(of)]


def _comparisons(treatments: Sequence[_Treatment]) -> Iterator[_Comparison]:
    """Pairs of treatments that differ in one factor, one of them at its first level."""
    plain = [t for t in treatments if not parts_of(t.name)[1]]
    first: dict[str, Level] = {}
    for treatment in plain:
        names = (*treatment.factors,) if treatment.is_baseline else _PLACES
        first |= {name: treatment.factors[name] for name in names if name in treatment.factors}
    first.pop(_RATE, None)
    at_levels = {t.at(t.factors): t for t in treatments}
    for factor, level in first.items():
        for treatment in treatments:
            levels_of = treatment.factors
            if levels_of.get(factor, level) == level:
                continue
            against = at_levels.get(treatment.at({**levels_of, factor: level}))
            if against is not None and against.unit == treatment.unit:
                others = {name: levels_of.get(name, of) for name, of in first.items()}
                at = {name: of for name, of in others.items() if of != first[name]}
                at.pop(factor)
                yield _Comparison(treatment, against, factor, at)


def _estimate(
    case: str,
    runs: pl.DataFrame,
    floors: Mapping[tuple[str, str], Interval | None],
    of: _Comparison,
) -> tuple[Contrast, float]:
    """The contrast, and its p value alone of no difference, over its looks.

    `runs`: a row per pair, with the figure of merit of each treatment.
    """
    treatment, against, factor, at = of
    floor, first_floor = (floors.get((case, side.baseline)) for side in (treatment, against))
    ratios = runs.select(pl.col(treatment.name) / pl.col(against.name)).to_series().drop_nulls()
    # Prices of times and gains of rates are taken as they are; the others are inverted.
    sign = -1 if treatment.is_baseline == treatment.higher else 1
    times = against_zero(sign * np.log(ratios.to_numpy()))
    contrast = Contrast(
        case=case,
        factor=factor,
        level=treatment.factors[factor],
        reference=against.factors[factor],
        at=at,
        kind="price" if treatment.is_baseline else "gain",
        treatment=treatment.name,
        against=against.name,
        pairs=len(times),
        ratio=slowdown(times),
        noise_floor=Interval(min(floor.low, first_floor.low), max(floor.high, first_floor.high))
        if floor and first_floor
        else None,
        unit=treatment.unit,
    )
    return contrast, looks.differs(times)
