"""What a campaign asks of its effects, and what their pairs show, over all that it asks.

One hypothesis a case and question: levels with an order are tested from the strongest down, at no
price, up to the first that is not shown. The family are the cases; levels without an order (rails,
injectors, cores left free) are compared with the first one and are a family of their own. Each
kind of statement holds over its family (docs/method.md#evidence).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from analysis.statistics import looks
from records import units
from records.arms import level_text, parts_of
from records.errors import InputError
from records.groups import grouped

if TYPE_CHECKING:
    from analysis.effects.estimate import Result

#: Factors of the writes whose levels have an order: more of it cannot do less.
ORDERED = ("rate", "message")

#: Statement -> the chance that a campaign makes any wrong one of its kind.
LEVELS = {"slower": 0.04, "above_control": 0.05, "faster": 0.01, "within": 0.05}
#: The chance that any sound baseline is called unstable.
UNSTABLE_LEVEL = 0.05

#: A case, and one of its treatments.
Asked = tuple[str, str]
#: What is shown of an effect: fields of `PValues`.
Shown = Collection[str]


@dataclass(frozen=True)
class PValues:
    """P values of one effect over its looks, alone (`analysis.statistics.looks`)."""

    #: That the typical run is slower, and faster, than off.
    slower: float
    faster: float
    #: That it lies within the margin.
    within: float
    #: That it is slower than off, and than the control; None without one.
    above_control: float | None
    #: That the repeated baseline differs from the baseline.
    unstable: float


class Hypothesis(NamedTuple):
    """A case and its question: an arm, at levels without an order other than the first ones."""

    case: str
    arm: str
    levels: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, case: str, treatment: str) -> Hypothesis:
        """That of one treatment, by its name."""
        arm, levels = parts_of(treatment)
        return cls(case, arm, tuple(item for item in levels.items() if item[0] not in ORDERED))


def families(effects: Iterable[Asked]) -> list[list[Hypothesis]]:
    """The hypotheses at first levels, one a case and arm, and those at other levels."""
    hypotheses = dict.fromkeys(Hypothesis.of(*effect) for effect in effects)
    of = grouped((not hypothesis.levels, hypothesis) for hypothesis in hypotheses)
    return [of.get(True, []), of.get(False, [])]


def shown(
    effects: Sequence[Result], asked: Iterable[Asked], asked_baselines: int = 0
) -> list[Shown]:
    """What is shown of each effect, over those `asked` for, also if not measured yet.

    `asked_baselines`: how many baselines were to be repeated, a family of their own.
    """
    statements: list[set[str]] = [set() for _ in effects]
    of = grouped((Hypothesis.of(row.case, row.arm), at) for at, row in enumerate(effects))
    for family in families([*((row.case, row.arm) for row in effects), *asked]):
        for name, level in LEVELS.items():
            # 'No effect' is shown from the weakest level up.
            down = name != "within"
            ladders = [
                sorted(of.get(question, []), key=lambda at: _strength(effects[at]), reverse=down)
                for question in family
            ]
            p = [[_p(effects[at], name) for at in ladder] or [1.0] for ladder in ladders]
            for ladder, steps in zip(ladders, looks.shown(p, level), strict=True):
                for at in ladder[:steps]:
                    statements[at].add(name)
    baselines = list(
        grouped(((row.case, row.baseline), at) for at, row in enumerate(effects)).values()
    )
    p = [[_p(effects[places[0]], "unstable")] for places in baselines]
    p += [[1.0]] * (asked_baselines - len(p))
    for places, is_shown in zip(baselines, looks.shown(p, UNSTABLE_LEVEL), strict=False):
        for at in places if is_shown else []:
            statements[at].add("unstable")
    return list(statements)


def _p(effect: Result, statement: str) -> float:
    p = getattr(effect.p, statement, None)
    return 1.0 if p is None else float(p)


def _strength(effect: Result) -> list[float]:
    """Larger is stronger."""
    factors = effect.factors
    return [quantity(level_text(factors[name])) for name in ORDERED if name in factors]


def quantity(level: str) -> float:
    """The number, share, rate or size that a level is; words and the full rate come last."""
    with suppress(ValueError):
        return float(level)
    for read in (units.share, units.rate_b_s, units.size_b):
        with suppress(InputError):
            return read(level, "level")
    return math.inf
