"""How each remedy stands: better, worse, or not decided; and which one is best.

A remedy is better only if the whole interval of its net benefit lies on that side, that for the
next allocation too, and its p value holds after Holm over all remedies that are read together. It
is recommended only if, besides, the writes were not emulated, the writers are not slowed down
instead, and the share of time with traffic was stated or does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from analysis.remedies.effect import Net, RemedyEffect, break_even, compared, mean_speed, net
from analysis.remedies.next_pairs import NextPairs
from analysis.statistics.interval import CONFIDENCE, Estimate, Interval, holm
from analysis.statistics.location import Crossing
from records.groups import grouped

_LEVEL = 1 - CONFIDENCE


class Standing(str, Enum):
    """What is known of a remedy; the value is used in text and files."""

    BETTER = "better"
    WORSE = "worse"
    OPEN = "not decided"
    HERE = "only here"
    FEW = "too few pairs"
    UNSTABLE = "baseline unstable"
    SLOWER_WRITES = "slower writes"

    __str__ = str.__str__

    @property
    def is_sided(self) -> bool:
        """Whether the remedy is shown to be better or worse."""
        return self in (Standing.BETTER, Standing.WORSE)

    @property
    def is_open(self) -> bool:
        """Whether more pairs, or allocations, could decide."""
        return self in (Standing.OPEN, Standing.FEW, Standing.HERE)


@dataclass(frozen=True)
class RemedyAdvice:
    """One remedy, what it comes to, and what is missing."""

    run: str
    effect: RemedyEffect
    #: Speed with the remedy / without, at the assumed share of traffic, in these allocations.
    net: Estimate | None
    #: How many they are; and the interval of the net that covers the next one, None below three.
    allocations: int
    next_allocation: Interval | None
    #: After Holm over all remedies that can be recommended; None for the others.
    p_adjusted: float | None
    standing: Standing
    recommended: bool
    #: Share of time with traffic from which on it is worth its price.
    break_even: Crossing
    #: Pairs that would decide; None if decided, or if pairs cannot.
    next: NextPairs | None = None

    @property
    def better(self) -> bool:
        """Whether it is shown to be better, on RDMA hardware."""
        return self.standing is Standing.BETTER and not self.effect.emulated

    @property
    def costs_nothing(self) -> bool:
        """Whether it is worth its price at any share of traffic: a level of the writers is."""
        return self.effect.price is None or self.break_even.high == 0

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        own = asdict(self)
        del own["effect"]
        return self.effect.as_dict() | own


@dataclass(frozen=True)
class Best:
    """The remedies recommended for one case and traffic."""

    run: str
    case: str
    traffic: str
    #: By estimate, the largest first.
    remedies: list[RemedyAdvice]
    #: Whether the first is shown to be better than each of the others.
    decided: bool


def stand(
    run: str, effect: RemedyEffect, share: float, margin: float, unstable: bool
) -> RemedyAdvice:
    """A remedy by itself, with traffic during `share` of the time; p as before Holm.

    `margin`: writers that lose more than this share are slowed down. `unstable`: a baseline differs
    from its own repetition.
    """
    measured = net(effect, share)
    slower = effect.written is not None and effect.written.high < 1 / (1 + margin)
    standing = Standing.UNSTABLE if measured and unstable else _standing(measured, slower)
    return RemedyAdvice(
        run=run,
        effect=effect,
        net=measured.ratio if measured else None,
        allocations=measured.allocations if measured else 0,
        next_allocation=measured.next_allocation if measured else None,
        p_adjusted=measured.p if measured and standing is not Standing.SLOWER_WRITES else None,
        standing=standing,
        recommended=False,
        break_even=break_even(effect),
    )


def _standing(measured: Net | None, slower_writes: bool) -> Standing:
    """On stable baselines, before Holm."""
    if measured is None:
        return Standing.FEW
    if measured.ratio.low <= 1 <= measured.ratio.high:
        return Standing.OPEN
    better = measured.ratio.low > 1
    if better and slower_writes:
        return Standing.SLOWER_WRITES
    if not measured.lasts:
        return Standing.HERE
    return Standing.BETTER if better else Standing.WORSE


def after_holm(rows: Sequence[RemedyAdvice], share_stated: bool) -> list[RemedyAdvice]:
    """Rows whose side holds after Holm keep it; the others are not decided.

    `share_stated`: without a stated share of traffic, only what costs nothing is recommended.
    """
    adjusted = iter(holm([row.p_adjusted for row in rows if row.p_adjusted is not None]))
    found = []
    for row in rows:
        if row.p_adjusted is not None:
            p = next(adjusted)
            sided = row.standing.is_sided or row.standing is Standing.HERE
            standing = Standing.OPEN if sided and p > _LEVEL else row.standing
            row = replace(row, p_adjusted=p, standing=standing)
        recommended = row.better and (share_stated or row.costs_nothing)
        found.append(replace(row, recommended=recommended))
    return found


def best(rows: Sequence[RemedyAdvice], share: float) -> list[Best]:
    """The recommended remedies of each case and traffic."""
    groups = grouped(
        ((row.run, row.effect.case, row.effect.traffic), row)
        for row in rows
        if row.recommended and row.net
    )
    return [
        Best(*key, ordered, _leads(ordered, share))
        for key, own in groups.items()
        if (ordered := sorted(own, key=lambda row: -row.net.value if row.net else 0.0))
    ]


def _leads(ordered: Sequence[RemedyAdvice], share: float) -> bool:
    """Whether the first is shown to be better than each other one, in the pairs of both."""
    first, *others = (_speeds(row.effect, share) for row in ordered)
    p = []
    for other in others:
        common = [pair for pair in first if pair in other]
        apart = compared(np.array([np.log(first[pair] / other[pair]) for pair in common]), common)
        p.append(apart.p if apart and apart.ratio.low > 1 and apart.lasts else 1.0)
    return all(adjusted <= _LEVEL for adjusted in holm(p))


def _speeds(effect: RemedyEffect, share: float) -> dict[tuple[int, int], float]:
    """Block and pair -> mean speed with the remedy; empty for levels in different jobs."""
    means = mean_speed(effect.speeds.with_remedy, share)
    return dict(zip(effect.speeds.keys, means, strict=True)) if effect.paired else {}
