"""What is shown over all that is asked, with p values given by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from analysis.effects.result import PValues, Result
from analysis.effects.verdict import Hypothesis, Shown, hypotheses, quantity, shown
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


def said(
    effects: Sequence[Result], asked: Sequence[tuple[str, str]] = (), baselines: int = 0
) -> list[Shown]:
    of_all = hypotheses([*((row.case, row.arm) for row in effects), *asked])
    return shown(effects, of_all, baselines)


def of(
    name: str, effects: Sequence[Result], asked: Sequence[tuple[str, str]] = (), baselines: int = 0
) -> list[bool]:
    return [name in statements for statements in said(effects, asked, baselines)]


def test_all_cases_that_were_asked_for_count() -> None:
    assert of("slower", [effect("on", LARGE)]) == [True]
    assert of("slower", [effect("on", LARGE), effect("on", LARGE, "b")]) == [False, False]
    assert of("slower", [effect("on", SMALL), effect("on", LARGE, "b")]) == [True, True]
    # The second case was asked for, and is not measured; the first one was measured, too.
    assert of("slower", [effect("on", LARGE)], [("b", "on")]) == [False]
    assert of("slower", [effect("on", SMALL)], [("a", "on"), ("b", "on")]) == [True]
    # Other arms of a case are other questions.
    assert of("slower", [effect("on", LARGE)], [("a", "daly")]) == [False]


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

    asked = [("a", name) for name in names]
    assert of("slower", swept(0.04, 0.04, 0.04), asked) == [True, True, True]
    assert of("slower", swept(0.0, 0.04, 0.05), asked) == [False, True, False]
    assert of("slower", swept(0.0, 0.05, 0.0), asked) == [False, False, False]
    effects = swept(1, 0.0, 1, within=(0.05, 1.0, 0.05))
    assert of("within", effects, asked) == [True, False, True]
    assert of("within", swept(1, 1, 1, within=(0.06, 0, 0)), asked) == [False] * 3


def test_each_combination_of_levels_without_an_order_is_a_hypothesis_of_the_campaign() -> None:
    rows = [
        effect("on", 0.01),
        effect("on@injector=ucx", SMALL),
        effect("on@injector=ucx,rate=25%", LARGE, rate="25%"),
        effect("on@injector=spin", LARGE),
    ]
    asked = hypotheses((row.case, row.arm) for row in rows)
    levels = [(), (("injector", "ucx"),), (("injector", "spin"),)]
    assert asked == [Hypothesis("a", "on", of) for of in levels]
    # 0.01 is shown among three, then 0.02 among two, of which both still have a level left.
    assert of("slower", rows) == [True, True, False, False]
    assert of("slower", [*rows[:2], rows[3]]) == [True, True, True]
    # Of three, 0.02 is not shown.
    assert of("slower", rows[1:], [("a", "on")]) == [False, False, False]


def test_a_statement_needs_its_own_p_value() -> None:
    alone = effect("on", 0.04, faster=0.01, within=0.05)
    assert said([alone]) == [{"slower", "faster", "within"}]
    assert said([effect("on", 0.041, faster=0.011, within=0.051)]) == [set()]
    assert said([effect("on", 0.04, above_control=0.05)]) == [{"slower", "above_control"}]
    assert said([result()]) == [set()]  # below six pairs


def test_baselines_are_a_family_of_their_own() -> None:
    """0.05 shows one unstable baseline of one, 0.025 of two; effects may share one."""
    twice = [effect("on", 1, unstable=0.05), effect("daly", 1, unstable=0.05)]
    assert of("unstable", twice) == [True, True]
    two = [effect("on", 1, unstable=0.05), effect("on", 1, "b")]
    assert of("unstable", two) == [False, False]
    assert of("unstable", [effect("on", 1, unstable=0.025), two[1]]) == [True, False]
    # With the first at a third, the second has what is left; rates share a baseline.
    rates = [effect("on", 1, unstable=0.02), effect("on@rate=1%", 1, rate="1%", unstable=0.02)]
    three = [*rates, effect("on", 1, "b", unstable=0.05)]
    assert of("unstable", three) == [True, True, True]
    # Those that are not measured yet count.
    assert of("unstable", [effect("on", 1, unstable=0.05)], baselines=2) == [False]


@pytest.mark.parametrize(
    ("level", "expected"),
    [("0", 0), ("25%", 0.25), ("500MB/s", 5e8), ("64KiB", 65536), ("full", float("inf"))],
)
def test_levels_have_an_order(level: str, expected: float) -> None:
    assert quantity(level) == expected
