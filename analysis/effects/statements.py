"""Decides which statements on effects are shown by the pairs of a campaign.

Each case, arm and combination of levels without an order (rails, injectors, reserved cores) is one
hypothesis. Levels with an order add no hypotheses: they are tested from the strongest down until
one shows nothing. For each kind of statement, `ERROR_LEVELS` bounds the chance that a campaign
makes it wrongly at least once (docs/method.md#evidence).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from analysis.effects.result import Result
from analysis.statistics import evidence
from records import units
from records.arms import arm_and_levels, level_text
from records.errors import InputError
from records.groups import grouped

#: Factors of the writes whose levels have an order. A higher level cannot have a smaller effect.
ORDERED_FACTORS = ("rate", "message")

#: Statement -> the chance that a campaign makes it wrongly at least once.
ERROR_LEVELS = {"slower": 0.04, "above_control": 0.05, "faster": 0.01, "within": 0.05}
#: The chance that a campaign calls at least one sound baseline unstable.
UNSTABLE_LEVEL = 0.05

#: The statements that the pairs of an effect show. Each is the name of a field of `PValues`.
Statements = Collection[str]


class Hypothesis(NamedTuple):
    """A case, an arm, and the levels of factors without an order.

    As in names of treatments, the first level of each factor is left out.
    """

    case: str
    arm: str
    levels: tuple[tuple[str, str], ...]

    @classmethod
    def from_effect(cls, case: str, treatment: str) -> Hypothesis:
        """Return the hypothesis of a case and the name of a treatment."""
        arm, levels = arm_and_levels(treatment)
        unordered = ((name, level) for name, level in levels.items() if name not in ORDERED_FACTORS)
        return cls(case, arm, tuple(unordered))


def hypotheses(effects: Iterable[tuple[str, str]]) -> list[Hypothesis]:
    """Return the distinct hypotheses of a campaign, from the case and treatment of each effect."""
    return list(dict.fromkeys(Hypothesis.from_effect(*effect) for effect in effects))


def statements_shown(
    effects: Sequence[Result], tested_hypotheses: Sequence[Hypothesis], baseline_count: int = 0
) -> list[Statements]:
    """Return the statements that are shown for each effect, in the order of `effects`.

    The chance of a wrong statement is bounded over all `tested_hypotheses`, measured or not. For
    'unstable' it is bounded over all baselines that the campaign repeats, measured or not.
    `baseline_count` is the number of these baselines.
    """
    statements: list[set[str]] = [set() for _ in effects]
    indices_by_hypothesis = grouped(
        (Hypothesis.from_effect(row.case, row.arm), index) for index, row in enumerate(effects)
    )
    for statement, error_level in ERROR_LEVELS.items():
        # 'No effect' is tested from the weakest level up.
        strongest_first = statement != "within"
        # A ladder: the indices of the effects of one hypothesis, in the order of their tests.
        ladders = [
            sorted(
                indices_by_hypothesis.get(hypothesis, []),
                key=lambda index: _strength(effects[index]),
                reverse=strongest_first,
            )
            for hypothesis in tested_hypotheses
        ]
        p_values = [
            [_p_value(effects[index], statement) for index in ladder] or [1.0] for ladder in ladders
        ]
        shown_counts = evidence.count_levels_shown(p_values, error_level)
        for ladder, shown_count in zip(ladders, shown_counts, strict=True):
            for index in ladder[:shown_count]:
                statements[index].add(statement)
    for index in _indices_with_unstable_baseline(effects, baseline_count):
        statements[index].add("unstable")
    return list(statements)


def _indices_with_unstable_baseline(effects: Sequence[Result], baseline_count: int) -> list[int]:
    """Return the indices of the effects whose baseline is shown to be unstable."""
    indices_by_baseline = grouped(
        ((row.case, row.baseline), index) for index, row in enumerate(effects)
    )
    # Effects with the same baseline have the same p value of 'unstable', unless it is unknown.
    p_values = [
        [min(_p_value(effects[index], "unstable") for index in indices)]
        for indices in indices_by_baseline.values()
    ]
    # A baseline that is not measured yet counts, with a p value of 1.
    p_values += [[1.0]] * (baseline_count - len(p_values))
    shown_counts = evidence.count_levels_shown(p_values, UNSTABLE_LEVEL)
    # The counts of baselines that are not measured yet come last, and are not used.
    measured = zip(indices_by_baseline.values(), shown_counts, strict=False)
    return [index for indices, shown_count in measured if shown_count for index in indices]


def _p_value(effect: Result, statement: str) -> float:
    p = getattr(effect.p, statement, None)
    return 1.0 if p is None else float(p)


def _strength(effect: Result) -> list[float]:
    """Return the effect's levels that have an order, as numbers; larger is stronger."""
    factors = effect.factors
    return [level_value(level_text(factors[name])) for name in ORDERED_FACTORS if name in factors]


def level_value(level: str) -> float:
    """Return a level as a number: a share, a rate (B/s) or a size (bytes).

    A level that is a word, such as `full`, is infinity.
    """
    with suppress(ValueError):
        return float(level)
    for parse in (units.share, units.rate_b_s, units.size_b):
        with suppress(InputError):
            return parse(level, "level")
    return math.inf
