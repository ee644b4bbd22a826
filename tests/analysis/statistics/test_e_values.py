"""E-values: fair bets by enumeration, and bounds worked out by hand."""

from itertools import combinations, product
from math import exp, log, nan, prod

import numpy as np
import pytest

from analysis.statistics.e_values import (
    longer,
    mean_longer,
    mean_ratio,
    mean_shorter,
    over_family,
    pairs_to_bound,
    pairs_until,
    shorter,
    signs,
)


def test_bets_on_signs_are_fair() -> None:
    """Over all signs of five differences the mean is 1, after each pair."""
    sizes = np.array([0.3, 0.01, 0.2, 0.05, 2.0])
    every = np.array(list(product([-1, 1], repeat=5))) * sizes
    assert signs(every).mean(axis=0) == pytest.approx(np.ones(5))


def test_evidence_that_doubles_with_each_of_two_pairs() -> None:
    assert [pairs_until(needed, 4.0, 2) for needed in (32.0, 33.0, 4.0)] == [3, 4, None]
    assert [pairs_until(32.0, found, 2) for found in (1.0, 0.2, nan)] == [None] * 3


def test_a_difference_counts_in_typical_ones_of_so_far_at_most_one_and_a_half() -> None:
    """Medians of so far 0.1, 0.2, 0.2, 0.25: typical 1, 1.5, 1, 2."""
    bets = [(5.0, 0.8), (1.5, 0.07), (0.75, 0.07), (0.35, 0.06)]
    by_hand = sum(
        money * prod(2 / (1 + exp(-2 * b * typical)) for typical in (1, -1.5, 1, 1.5))
        for b, money in bets
    )
    assert signs(np.array([0.1, -0.3, 0.2, 0.5]))[-1] == pytest.approx(by_hand)
    assert longer(np.zeros((6, 1))) == 1.0  # no baseline


def test_a_bet_on_the_mean_gains_its_share_where_a_pair_wins_what_the_worst_costs() -> None:
    """On 1.25 of a baseline of 1, which lasts 1.5 at most; on 0.8, so 1.2 at most, the reverse."""
    shares = [(0.9, 0.8), (0.3, 0.08), (0.1, 0.06), (0.03, 0.06)]
    by_hand = sum(money * (1 + share) ** 6 for share, money in shares)
    assert mean_longer(np.log([[1.25, 1.0]] * 6)) == pytest.approx(by_hand)
    assert mean_shorter(np.log([[0.8, 1.0]] * 6)) == pytest.approx(by_hand)


def test_bets_on_the_mean_are_fair() -> None:
    """`on` takes 1 or 1.5, the latter in one of ten runs: the true ratio is 1.05.

    Over all draws in which typical runs are seen the mean is 1; in others the bounds differ.
    """
    expected = np.zeros(2)
    for hit in (hit for hit in product([0, 1], repeat=6) if sum(hit) <= 3):
        times = np.log(np.column_stack([1 + 0.5 * np.array(hit), np.ones(6)]))
        chance = np.prod([0.1 if each else 0.9 for each in hit])
        expected += chance * np.array([mean_longer(times, 1.05), mean_shorter(times, 1.05)])
    assert expected == pytest.approx([1.0, 1.0], abs=0.01)


def test_six_pairs_of_six_that_are_much_slower_decide() -> None:
    """Each gains 2 / (1 + exp(-2 b)) at the bet b, of money as listed."""
    times = np.log(np.array([[1.5, 1.0, 1.0]] * 6))
    bets = [(5.0, 0.8), (1.5, 0.07), (0.75, 0.07), (0.35, 0.06)]
    by_hand = sum(money * (2 / (1 + exp(-2 * b))) ** 6 for b, money in bets)
    assert longer(times) == pytest.approx(by_hand)
    assert longer(times) >= 50
    assert longer(times[:5]) < 50
    assert shorter(times) < 0.01
    assert longer(times, 1.5) == pytest.approx(1.0)
    assert shorter(times, 2.0) >= 50


def test_a_missing_repetition_bets_nothing() -> None:
    whole = np.log([[1.5, 1.0, 1.0]] * 6)
    lacks = whole.copy()
    lacks[2:, 2] = np.nan
    gains = 2 / (1 + exp(-10))
    assert longer(lacks) / longer(whole) == pytest.approx((gains**6 + gains**2) / 2 / gains**6, 0.1)


@pytest.mark.parametrize("pairs", [6, 20, 100])
def test_what_no_hit_rules_out(pairs: int) -> None:
    """Of equal runs, the most that the mean may be higher follows from the largest bet alone."""
    found = mean_ratio(np.zeros((pairs, 3)))
    assert found.value == 1.0
    # 0.8 (1 + 0.9 (r - 1) / (1.5 - r))^n = 40, less than a tenth from the smaller bets.
    gain = (50 ** (1 / pairs) - 1) / 0.9
    assert found.high == pytest.approx((1.5 * gain + 1) / (1 + gain), abs=0.004)


def test_pairs_to_a_bound_are_those_of_the_interval() -> None:
    pairs = pairs_to_bound(0.02, 40)
    wide, narrow = (mean_ratio(np.zeros((n, 2))) for n in (pairs - 3, pairs + 1))
    assert wide.high > 1.02 >= narrow.high


def test_the_mean_is_that_of_times() -> None:
    """On: 1, 1, 1, 1, 1, 4 of a baseline of 1: 1.5 in the mean, and one run of six is hit."""
    times = np.log(np.column_stack([[1, 1, 1, 1, 1, 4], np.ones(6)]))
    found = mean_ratio(times)
    assert found.value == pytest.approx(1.5)
    family = mean_ratio(times, 10)
    assert family.low <= found.low < 1.5 < found.high <= family.high
    assert mean_ratio(times[:5]) is None


def test_a_family_is_closed() -> None:
    """Each adjusted value is the least mean of the value and any of the others."""
    rng = np.random.default_rng(1)
    for asked in (5, 7):
        values = np.exp(rng.normal(1, 3, 5)).tolist()
        others = [*values, *[0.0] * (asked - 5)]
        by_hand = [
            min(
                (value + sum(others[i] for i in chosen)) / (1 + len(chosen))
                for size in range(asked)
                for chosen in combinations([i for i in range(asked) if i != at], size)
            )
            for at, value in enumerate(values)
        ]
        assert over_family(values, asked) == pytest.approx(by_hand)


def test_a_family_of_one_and_of_equals() -> None:
    assert over_family([64.0], 1) == [64.0]
    assert over_family([64.0, 64.0], 2) == [64.0, 64.0]
    assert over_family([64.0], 2) == [32.0]
    assert over_family([], 3) == []


def test_huge_evidence_stays_a_number() -> None:
    times = np.log(np.array([[2.0, 1.0]] * 3000))
    assert log(longer(times)) == pytest.approx(690)
    assert mean_longer(times) > 1e200
