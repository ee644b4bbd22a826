"""What is shown over all that is asked, with p values given by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from analysis.effects.result import PValues, Result
from analysis.effects.statements import (
    Hypothesis,
    Statements,
    hypotheses,
    level_value,
    statements_shown,
)
from records.sample import Level
from tests.analysis.synthetic import result

#: At 0.04 over all cases, 0.02 is small enough for one of two, and 0.03 for the last one left.
SMALL, LARGE = 0.02, 0.03


def effect(
    treatment: str, slower: float, case: str = "a", rate: Level = "full", **others: float
) -> Result:
    """An effect with this p value; others show nothing unless given."""
    nothing = PValues(slower, faster=1.0, within=1.0, above_control=None, unstable=1.0)
    p = replace(nothing, **others)
    return result(case=case, arm=treatment, factors={"rate": rate}, p=p)


def statements_of(
    effects: Sequence[Result], requested: Sequence[tuple[str, str]] = (), baselines: int = 0
) -> list[Statements]:
    questions = hypotheses([*((row.case, row.arm) for row in effects), *requested])
    return statements_shown(effects, questions, baselines)


def is_stated(
    name: str,
    effects: Sequence[Result],
    requested: Sequence[tuple[str, str]] = (),
    baselines: int = 0,
) -> list[bool]:
    return [name in statements for statements in statements_of(effects, requested, baselines)]


def test_all_cases_that_were_asked_for_count() -> None:
    assert is_stated("slower", [effect("on", LARGE)]) == [True]
    assert is_stated("slower", [effect("on", LARGE), effect("on", LARGE, "b")]) == [False, False]
    assert is_stated("slower", [effect("on", SMALL), effect("on", LARGE, "b")]) == [True, True]
    # The second case was asked for, and is not measured; the first one was measured, too.
    assert is_stated("slower", [effect("on", LARGE)], [("b", "on")]) == [False]
    assert is_stated("slower", [effect("on", SMALL)], [("a", "on"), ("b", "on")]) == [True]
    # Other arms of a case are other questions.
    assert is_stated("slower", [effect("on", LARGE)], [("a", "daly")]) == [False]


def test_rates_are_one_hypothesis_from_the_full_one_down_and_for_no_effect_from_the_least_up() -> (
    None
):
    names = ["on@rate=25%", "on", "on@rate=50%"]

    def swept(*p: float, within: Sequence[float] = (1, 1, 1)) -> list[Result]:
        rates = ["25%", "full", "50%"]
        return [
            effect(name, chance, rate=rate, within=small)
            for name, chance, rate, small in zip(names, p, rates, within, strict=True)
        ]

    requested = [("a", name) for name in names]
    assert is_stated("slower", swept(0.04, 0.04, 0.04), requested) == [True, True, True]
    assert is_stated("slower", swept(0.0, 0.04, 0.05), requested) == [False, True, False]
    assert is_stated("slower", swept(0.0, 0.05, 0.0), requested) == [False, False, False]
    effects = swept(1, 0.0, 1, within=(0.05, 1.0, 0.05))
    assert is_stated("within", effects, requested) == [True, False, True]
    assert is_stated("within", swept(1, 1, 1, within=(0.06, 0, 0)), requested) == [False] * 3


def test_each_combination_of_levels_without_an_order_is_a_hypothesis_of_the_campaign() -> None:
    rows = [
        effect("on", 0.01),
        effect("on@injector=ucx", SMALL),
        effect("on@injector=ucx,rate=25%", LARGE, rate="25%"),
        effect("on@injector=spin", LARGE),
    ]
    family = hypotheses((row.case, row.arm) for row in rows)
    levels = [(), (("injector", "ucx"),), (("injector", "spin"),)]
    assert family == [Hypothesis("a", "on", level) for level in levels]
    # 0.01 is shown among three, then 0.02 among two, of which both still have a level left.
    assert is_stated("slower", rows) == [True, True, False, False]
    assert is_stated("slower", [*rows[:2], rows[3]]) == [True, True, True]
    # Of three, 0.02 is not shown.
    assert is_stated("slower", rows[1:], [("a", "on")]) == [False, False, False]


def test_a_statement_needs_its_own_p_value() -> None:
    alone = effect("on", 0.04, faster=0.01, within=0.05)
    assert statements_of([alone]) == [{"slower", "faster", "within"}]
    assert statements_of([effect("on", 0.041, faster=0.011, within=0.051)]) == [set()]
    assert statements_of([effect("on", 0.04, above_control=0.05)]) == [{"slower", "above_control"}]
    assert statements_of([result()]) == [set()]  # below six pairs


def test_baselines_are_a_family_of_their_own() -> None:
    """0.05 shows one unstable baseline of one, 0.025 of two; effects may share one."""
    twice = [effect("on", 1, unstable=0.05), effect("daly", 1, unstable=0.05)]
    assert is_stated("unstable", twice) == [True, True]
    two = [effect("on", 1, unstable=0.05), effect("on", 1, "b")]
    assert is_stated("unstable", two) == [False, False]
    assert is_stated("unstable", [effect("on", 1, unstable=0.025), two[1]]) == [True, False]
    # With the first at a third, the second has what is left; rates share a baseline.
    rates = [effect("on", 1, unstable=0.02), effect("on@rate=1%", 1, rate="1%", unstable=0.02)]
    three = [*rates, effect("on", 1, "b", unstable=0.05)]
    assert is_stated("unstable", three) == [True, True, True]
    # Those that are not measured yet count.
    assert is_stated("unstable", [effect("on", 1, unstable=0.05)], baselines=2) == [False]


@pytest.mark.parametrize(
    ("level", "expected"),
    [("0", 0), ("25%", 0.25), ("500MB/s", 5e8), ("64KiB", 65536), ("full", float("inf"))],
)
def test_levels_have_an_order(level: str, expected: float) -> None:
    assert level_value(level) == expected
