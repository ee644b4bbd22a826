"""What the pairs of effects show, over all that a campaign asks, and what is concluded from it.

Each case, arm and combination of levels without an order (rails, injectors, cores left free) is one
hypothesis. Levels with an order are tested from the strongest down, at no price, up to the first
that is not shown. Each kind of statement holds over the campaign (docs/method.md#evidence).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from analysis.effects.result import Result, Verdict
from analysis.statistics import looks
from records import units
from records.arms import level_text, parts_of
from records.errors import InputError
from records.groups import grouped
from records.machine import fabrics

if TYPE_CHECKING:
    import polars as pl

#: Factors of the writes whose levels have an order: more of it cannot do less.
ORDERED = ("rate", "message")

#: Statement -> the chance that a campaign makes any wrong one of its kind.
LEVELS = {"slower": 0.04, "above_control": 0.05, "faster": 0.01, "within": 0.05}
#: The chance that any sound baseline is called unstable.
UNSTABLE_LEVEL = 0.05

#: What is shown of an effect: fields of `PValues`.
Shown = Collection[str]


class Hypothesis(NamedTuple):
    """A case and its question: an arm, at levels without an order other than the first ones."""

    case: str
    arm: str
    levels: tuple[tuple[str, str], ...]

    @classmethod
    def from_effect(cls, case: str, treatment: str) -> Hypothesis:
        """That of one treatment, by its name."""
        arm, levels = parts_of(treatment)
        return cls(case, arm, tuple(item for item in levels.items() if item[0] not in ORDERED))


def hypotheses(effects: Iterable[tuple[str, str]]) -> list[Hypothesis]:
    """All that a campaign asks; `effects`: case and treatment of each."""
    return list(dict.fromkeys(Hypothesis.from_effect(*effect) for effect in effects))


def shown(
    effects: Sequence[Result], questions: Sequence[Hypothesis], baselines: int = 0
) -> list[Shown]:
    """What is shown of each effect, over all `questions`, measured or not.

    `baselines`: how many are to be repeated, over which a statement on them holds.
    """
    statements: list[set[str]] = [set() for _ in effects]
    by_question = grouped(
        (Hypothesis.from_effect(row.case, row.arm), index) for index, row in enumerate(effects)
    )
    for name, level in LEVELS.items():
        # 'No effect' is shown from the weakest level up.
        down = name != "within"
        ladders = [
            sorted(
                by_question.get(question, []),
                key=lambda index: _strength(effects[index]),
                reverse=down,
            )
            for question in questions
        ]
        p = [[_p(effects[index], name) for index in ladder] or [1.0] for ladder in ladders]
        for ladder, steps in zip(ladders, looks.shown(p, level), strict=True):
            for index in ladder[:steps]:
                statements[index].add(name)
    of_baseline = grouped(((row.case, row.baseline), index) for index, row in enumerate(effects))
    p = [[_p(effects[index], "unstable")] for index, *_ in of_baseline.values()]
    p += [[1.0]] * (baselines - len(p))
    for places, is_shown in zip(of_baseline.values(), looks.shown(p, UNSTABLE_LEVEL), strict=False):
        for index in places if is_shown else []:
            statements[index].add("unstable")
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


def judge(row: Result, shown: Shown, pairs_floor: int, *, same_host: bool = False) -> Verdict:
    """The verdict on an effect, of which all but the verdict is in its row.

    `shown`: what the pairs show, over all that is asked. What shows that memory is the cause comes
    later (`analysis.effects.facts.name_contention`).
    """
    effect, mean, repeated = row.slowdown, row.mean, row.noise_floor
    if effect is None or mean is None or row.pairs < pairs_floor:
        return Verdict.TOO_FEW_PAIRS
    if row.writer_rate_b_s is None:
        return Verdict.NO_WRITES
    if repeated is None:
        return Verdict.NO_NOISE_FLOOR
    if "unstable" in shown:
        return Verdict.BASELINE_UNSTABLE
    if "slower" in shown and effect.low > 1 and mean.value > 1:
        if same_host and row.over_control is None:
            return Verdict.NO_CONTROL
        if row.over_control and "above_control" not in shown:
            return Verdict.NOT_ABOVE_CONTROL
        if row.emulated:
            return Verdict.EMULATED
        return Verdict.SLOWER
    if "faster" in shown and effect.high < 1 and mean.high < 1:
        return Verdict.SPEED_UP
    # A mean beyond the margin is an effect, if not one on the typical run; or the baseline drifts.
    least, most = 1 / (1 + row.margin), 1 + row.margin
    beyond = any(interval.low > most or interval.high < least for interval in (mean, repeated))
    return Verdict.NO_EFFECT if "within" in shown and not beyond else Verdict.INCONCLUSIVE


def emulations(transports: pl.Series) -> list[str]:
    """Caveats of `transports` (`records.machine.fabrics`)."""
    return fabrics.emulations(transports.drop_nulls().unique(maintain_order=True))
