"""Tests which statements p values show if a campaign has several hypotheses.

P values are given by hand.
"""

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

#: P values of 'slower', whose error level over a campaign is 0.04. The small one is shown among two
#: hypotheses; the large one only if it is the last hypothesis left.
SMALL, LARGE = 0.02, 0.03


def effect(
    treatment: str,
    slower: float,
    case: str = "a",
    rate: Level = "full",
    *,
    faster: float = 1.0,
    within: float = 1.0,
    above_control: float | None = None,
    unstable: float = 1.0,
) -> Result:
    """Return an effect with these p values; a p value of 1 shows nothing."""
    p = PValues(
        slower=slower,
        faster=faster,
        within=within,
        above_control=above_control,
        unstable=unstable,
    )
    return result(case=case, arm=treatment, factors={"rate": rate}, p=p)


def baseline_effect(unstable: float, treatment: str = "on", case: str = "a") -> Result:
    """Return an effect of which only the p value of its baseline may show something."""
    return effect(treatment, 1.0, case, unstable=unstable)


def statements_of(
    effects: Sequence[Result], requested: Sequence[tuple[str, str]] = (), baselines: int = 0
) -> list[Statements]:
    """Return the statements shown of each effect.

    `requested` has case and treatment of more hypotheses, `baselines` is the number of baselines
    that the campaign requests.
    """
    tested = hypotheses([*((row.case, row.arm) for row in effects), *requested])
    return statements_shown(effects, tested, baselines)


def shows(
    name: str,
    effects: Sequence[Result],
    requested: Sequence[tuple[str, str]] = (),
    baselines: int = 0,
) -> list[bool]:
    """Return whether each effect shows the statement `name`."""
    return [name in statements for statements in statements_of(effects, requested, baselines)]


def test_measured_cases_are_hypotheses() -> None:
    assert shows("slower", [effect("on", LARGE)]) == [True]
    assert shows("slower", [effect("on", LARGE), effect("on", LARGE, "b")]) == [False, False]
    # 0.02 is shown among two hypotheses; then 0.03 is the only one left.
    assert shows("slower", [effect("on", SMALL), effect("on", LARGE, "b")]) == [True, True]


def test_requested_cases_and_arms_are_hypotheses_before_they_are_measured() -> None:
    assert shows("slower", [effect("on", LARGE)], [("b", "on")]) == [False]
    assert shows("slower", [effect("on", LARGE)], [("a", "daly")]) == [False]
    # A requested treatment that is measured is not counted twice.
    assert shows("slower", [effect("on", SMALL)], [("a", "on"), ("b", "on")]) == [True]


RATES: dict[str, Level] = {"on@rate=25%": "25%", "on": "full", "on@rate=50%": "50%"}


def rate_effects(
    slower: Sequence[float] = (1, 1, 1), within: Sequence[float] = (1, 1, 1)
) -> list[Result]:
    """Return the effects of one case at the rates 25%, full and 50%, in this order."""
    return [
        effect(treatment, slower_p, rate=rate, within=within_p)
        for (treatment, rate), slower_p, within_p in zip(RATES.items(), slower, within, strict=True)
    ]


@pytest.mark.parametrize(
    ("slower", "shown"),
    [
        ((0.04, 0.04, 0.04), [True, True, True]),
        ((0.0, 0.04, 0.05), [False, True, False]),
        ((0.0, 0.05, 0.0), [False, False, False]),
    ],
)
def test_rates_are_one_hypothesis_tested_from_the_full_rate_down(
    slower: Sequence[float], shown: list[bool]
) -> None:
    requested = [("a", treatment) for treatment in RATES]
    assert shows("slower", rate_effects(slower), requested) == shown


@pytest.mark.parametrize(
    ("within", "shown"),
    [((0.05, 1.0, 0.05), [True, False, True]), ((0.06, 0, 0), [False, False, False])],
)
def test_no_effect_is_tested_from_the_lowest_rate_up(
    within: Sequence[float], shown: list[bool]
) -> None:
    """A full rate that shows 'slower' does not change this."""
    effects = rate_effects(slower=(1.0, 0.0, 1.0), within=within)
    assert shows("within", effects, [("a", treatment) for treatment in RATES]) == shown


def test_each_combination_of_levels_without_an_order_is_a_hypothesis() -> None:
    """The levels of `injector` have no order, those of `rate` do."""
    default = effect("on", 0.01)
    ucx = effect("on@injector=ucx", SMALL)
    slow_ucx = effect("on@injector=ucx,rate=25%", LARGE, rate="25%")
    spin = effect("on@injector=spin", LARGE)
    effects = [default, ucx, slow_ucx, spin]
    assert hypotheses((row.case, row.arm) for row in effects) == [
        Hypothesis("a", "on", ()),
        Hypothesis("a", "on", (("injector", "ucx"),)),
        Hypothesis("a", "on", (("injector", "spin"),)),
    ]
    # 0.01 is shown among three hypotheses, then 0.02 among two. Then `ucx` at the lower rate and
    # `spin` are left, so 0.03 is not shown.
    assert shows("slower", effects) == [True, True, False, False]
    assert shows("slower", [default, ucx, spin]) == [True, True, True]
    # 0.02 is not shown among three hypotheses.
    assert shows("slower", [ucx, slow_ucx, spin], [("a", "on")]) == [False, False, False]


def test_a_statement_needs_its_own_p_value() -> None:
    at_levels = effect("on", 0.04, faster=0.01, within=0.05)
    assert statements_of([at_levels]) == [{"slower", "faster", "within"}]
    assert statements_of([effect("on", 0.041, faster=0.011, within=0.051)]) == [set()]
    assert statements_of([effect("on", 0.04, above_control=0.05)]) == [{"slower", "above_control"}]
    assert statements_of([effect("on", 0.04, above_control=0.051)]) == [{"slower"}]


def test_nothing_is_shown_without_p_values() -> None:
    """With fewer than six pairs, a result has no p values."""
    assert statements_of([result()]) == [set()]


def test_baselines_are_a_separate_family_of_hypotheses() -> None:
    """A p value of 0.05 shows that the only baseline is unstable; with two, 0.025 is needed."""
    stable = baseline_effect(1.0, case="b")
    assert shows("unstable", [baseline_effect(0.05)]) == [True]
    assert shows("unstable", [baseline_effect(0.051)]) == [False]
    assert shows("unstable", [baseline_effect(0.05), stable]) == [False, False]
    assert shows("unstable", [baseline_effect(0.025), stable]) == [True, False]


def test_effects_that_share_a_baseline_count_once() -> None:
    shared = [baseline_effect(0.05), baseline_effect(0.05, "daly")]
    assert shows("unstable", shared) == [True, True]


def test_a_baseline_is_unstable_although_its_first_effect_has_too_few_pairs() -> None:
    too_few = replace(baseline_effect(0.05, "daly"), p=None)
    assert shows("unstable", [too_few, baseline_effect(0.05)]) == [True, True]


def test_a_baseline_shown_to_be_unstable_leaves_its_part_of_the_level_to_others() -> None:
    first = [baseline_effect(0.02), effect("on@rate=1%", 1.0, rate="1%", unstable=0.02)]
    assert shows("unstable", [*first, baseline_effect(0.05, case="b")]) == [True, True, True]


def test_baselines_that_are_not_measured_yet_count() -> None:
    assert shows("unstable", [baseline_effect(0.05)], baselines=2) == [False]


@pytest.mark.parametrize(
    ("level", "expected"),
    [("0", 0), ("25%", 0.25), ("500MB/s", 5e8), ("64KiB", 65536), ("full", float("inf"))],
)
def test_a_level_has_a_number_by_which_levels_are_ordered(level: str, expected: float) -> None:
    assert level_value(level) == expected
