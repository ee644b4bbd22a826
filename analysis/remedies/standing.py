"""How each remedy stands: better, worse, or not decided; and which one is best.

A remedy is better only if the whole interval of its net benefit lies on that side and its p value
holds after Holm over all remedies that are read together. It is recommended only if, besides, the
writes were not emulated and the writers are not slowed down instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from analysis.remedies.effect import Net, RemedyEffect, break_even, compared, mean_speed, net
from analysis.remedies.next_pairs import NextPairs
from analysis.statistics.holm import holm
from analysis.statistics.interval import CONFIDENCE, Estimate
from analysis.statistics.location import Crossing

_LEVEL = 1 - CONFIDENCE


class Standing(str, Enum):
    """What is known of a remedy; the value is used in text and files."""

    BETTER = "better"
    WORSE = "worse"
    OPEN = "not decided"
    FEW = "too few pairs"
    UNSTABLE = "baseline unstable"
    SLOWER_WRITES = "slower writes"

    __str__ = str.__str__

    @property
    def is_open(self) -> bool:
        """Whether more pairs could decide."""
        return self in (Standing.OPEN, Standing.FEW)


@dataclass(frozen=True)
class RemedyAdvice:
    """One remedy, what it comes to, and what is missing."""

    run: str
    effect: RemedyEffect
    #: Speed with the remedy / without, at the assumed share of traffic.
    net: Estimate | None
    #: After Holm over all remedies that can be recommended; None for the others.
    p_adjusted: float | None
    standing: Standing
    recommended: bool
    #: Share of time with traffic from which on it is worth its price.
    break_even: Crossing
    #: Pairs that would decide; None if decided, or if pairs cannot.
    next: NextPairs | None = None

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        of_effect = self.effect.as_dict()
        own = {name: value for name, value in vars(self).items() if name != "effect"}
        for name in ("net", "break_even", "next"):
            own[name] = asdict(own[name]) if own[name] else None
        return of_effect | own


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
    found = net(effect, share)
    slower = effect.written is not None and effect.written.high < 1 / (1 + margin)
    standing = Standing.FEW
    if found:
        standing = _side(found.ratio)
        if unstable:
            standing = Standing.UNSTABLE
        elif slower and standing is Standing.BETTER:
            standing = Standing.SLOWER_WRITES
    return RemedyAdvice(
        run=run,
        effect=effect,
        net=found.ratio if found else None,
        p_adjusted=found.p if found and standing is not Standing.SLOWER_WRITES else None,
        standing=standing,
        recommended=False,
        break_even=break_even(effect),
    )


def _side(ratio: Estimate) -> Standing:
    if ratio.low > 1:
        return Standing.BETTER
    return Standing.WORSE if ratio.high < 1 else Standing.OPEN


def after_holm(rows: Sequence[RemedyAdvice]) -> list[RemedyAdvice]:
    """Rows whose side holds after Holm keep it; the others are not decided."""
    adjusted = iter(holm([row.p_adjusted for row in rows if row.p_adjusted is not None]))
    found = []
    for row in rows:
        if row.p_adjusted is not None:
            p = next(adjusted)
            sided = row.standing in (Standing.BETTER, Standing.WORSE)
            standing = Standing.OPEN if sided and p > _LEVEL else row.standing
            row = replace(row, p_adjusted=p, standing=standing)
        recommended = row.standing is Standing.BETTER and not row.effect.emulated
        found.append(replace(row, recommended=recommended))
    return found


def best(rows: Sequence[RemedyAdvice], share: float) -> list[Best]:
    """The recommended remedies of each case and traffic."""
    groups: dict[tuple[str, str, str], list[RemedyAdvice]] = {}
    for row in rows:
        if row.recommended and row.net:
            key = (row.run, row.effect.case, row.effect.traffic)
            groups.setdefault(key, []).append(row)
    return [
        Best(*key, ordered, _leads(ordered, share))
        for key, own in groups.items()
        if (ordered := sorted(own, key=lambda row: -row.net.value if row.net else 0.0))
    ]


def _leads(ordered: Sequence[RemedyAdvice], share: float) -> bool:
    """Whether the first is shown to be better than each other one, in the pairs of both."""
    first, *others = (row.effect for row in ordered)
    found = [_against(first, other, share) for other in others]
    p = holm([each.p if each and each.ratio.low > 1 else 1.0 for each in found])
    return all(each <= _LEVEL for each in p)


def _against(one: RemedyEffect, other: RemedyEffect, share: float) -> Net | None:
    rows = {key: row for row, key in enumerate(other.speeds.keys)}
    common = [(at, rows[key]) for at, key in enumerate(one.speeds.keys) if key in rows]
    if not common:
        return None
    mine, theirs = zip(*common, strict=True)
    speeds = mean_speed(one.speeds.with_remedy[list(mine)], share)
    return compared(np.log(speeds / mean_speed(other.speeds.with_remedy[list(theirs)], share)))
