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
from collections.abc import Iterator, Sequence
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
    role: str
    #: Name of its baseline; a baseline names itself.
    baseline: str
    factors: dict[str, Level]
    unit: str
    higher: bool

    def at(self, factors: dict[str, Level]) -> tuple[str, str]:
        """Its arm at these levels, as a key."""
        return parts_of(self.name)[0], json.dumps(factors, sort_keys=True)


def contrasts(marked: pl.DataFrame, results: Sequence[Result]) -> list[Contrast]:
    """Prices and gains of every case, from its samples (`pairs.judged`) and its results."""
    kinds = marked.select(_KIND).unique(maintain_order=True)
    estimates: list[tuple[Contrast, float]] = []
    for case in kinds["case"].unique(maintain_order=True):
        treatments = _treatments(kinds.filter(pl.col("case") == case))
        floors = {row.baseline: row.noise_floor for row in results if row.case == case}
        runs = counted(marked.lazy().filter(pl.col("case") == case), "fom")
        comparisons = _comparisons(treatments)
        estimates += [_estimate(str(case), runs, floors, *what) for what in comparisons]
    of_kind = grouped((contrast.kind, [p]) for contrast, p in estimates)
    held = {kind: iter(looks.shown(p, _LEVEL)) for kind, p in of_kind.items()}
    return [replace(contrast, shown=bool(next(held[contrast.kind]))) for contrast, _ in estimates]


#: A treatment, the one that it is compared with, their factor, and levels of other factors.
_Comparison = tuple[_Treatment, _Treatment, str, dict[str, Level]]
#: Columns that describe a treatment.
_KIND = ("case", "arm", "role", "baseline", "factors", "fom_unit", "fom_better")


def _treatments(kinds: pl.DataFrame) -> list[_Treatment]:
    """Baselines and effects of one case, from the distinct `_KIND` of its samples."""
    of = {
        arm: _Treatment(arm, role, baseline or arm, levels(factors), unit, better == "higher")
        for _, arm, role, baseline, factors, unit, better in kinds.iter_rows()
        if role in ("baseline", "effect")
    }
    return [of[name] for name in in_order(of)]


def _comparisons(treatments: Sequence[_Treatment]) -> Iterator[_Comparison]:
    """Pairs of treatments that differ in one factor, one of them at its first level."""
    plain = [t for t in treatments if not parts_of(t.name)[1]]
    baseline = next((t.factors for t in plain if t.role == "baseline"), None)
    if baseline is None:
        return
    first = {name: level for name, level in baseline.items() if name != _RATE}
    for effect in plain:
        first |= {name: effect.factors[name] for name in _PLACES if name in effect.factors}
    at_levels = {t.at(t.factors): t for t in treatments}
    for factor, level in first.items():
        for treatment in treatments:
            if treatment.factors.get(factor, level) == level:
                continue
            against = at_levels.get(treatment.at({**treatment.factors, factor: level}))
            if against is not None and against.unit == treatment.unit:
                at = {
                    name: treatment.factors[name]
                    for name in first
                    if name != factor and treatment.factors.get(name, first[name]) != first[name]
                }
                yield treatment, against, factor, at


def _estimate(
    case: str,
    runs: pl.DataFrame,
    floors: dict[str, Interval | None],
    treatment: _Treatment,
    against: _Treatment,
    factor: str,
    at: dict[str, Level],
) -> tuple[Contrast, float]:
    """The contrast, and its p value alone of no difference, over its looks."""
    price = treatment.role == "baseline"
    floor, first_floor = floors.get(treatment.baseline), floors.get(against.baseline)
    one, other = (
        runs.filter(pl.col("arm") == side.name).select("block", "pair", "fom")
        for side in (treatment, against)
    )
    both = one.join(other, on=["block", "pair"], suffix="_first", maintain_order="left")
    # Prices of times and gains of rates are taken as they are; the others are inverted.
    sign = -1 if price == treatment.higher else 1
    logs = sign * np.log((both["fom"] / both["fom_first"]).to_numpy())
    times = against_zero(logs)
    contrast = Contrast(
        case=case,
        factor=factor,
        level=treatment.factors[factor],
        reference=against.factors[factor],
        at=at,
        kind="price" if price else "gain",
        treatment=treatment.name,
        against=against.name,
        pairs=len(logs),
        ratio=slowdown(times),
        noise_floor=Interval(min(floor.low, first_floor.low), max(floor.high, first_floor.high))
        if floor and first_floor
        else None,
        unit=treatment.unit,
    )
    return contrast, looks.differs(times)
