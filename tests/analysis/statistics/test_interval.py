from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics.interval import (
    Estimate,
    Interval,
    effect,
    flat,
    median_interval,
    order_rank,
)


def test_six_values_give_the_extremes() -> None:
    estimate = median_interval([1.3, 1.1, 1.6, 1.2, 1.5, 1.4])
    assert (estimate.low, estimate.high) == (1.1, 1.6)
    assert estimate.value == pytest.approx(1.35)
    assert estimate.confidence == 0.96875  # 1 - 2/64


def test_ten_values_give_second_smallest_and_second_largest() -> None:
    estimate = median_interval([10, 1, 9, 2, 8, 3, 7, 4, 6, 5])
    assert (estimate.low, estimate.value, estimate.high) == (2, 5.5, 9)
    assert estimate.confidence == pytest.approx(1 - 2 * 11 / 1024)  # 97.85 %


def test_fewer_than_six_give_none() -> None:
    assert [median_interval([1.0] * n) for n in range(6)] == [None] * 6


@given(st.integers(6, 200))
def test_rank_is_the_narrowest_that_reaches_the_confidence(n: int) -> None:
    def coverage(k: int) -> Fraction:
        return 1 - 2 * Fraction(sum(comb(n, i) for i in range(k)), 2**n)

    rank = order_rank(n)
    assert coverage(rank) >= Fraction(95, 100) > coverage(rank + 1)


def test_an_estimate_lies_within_its_interval_and_is_printed_with_it() -> None:
    with pytest.raises(ValueError, match="outside"):
        Estimate(2.0, 1.0, 1.5, 0.95)
    assert Estimate(2.0, 1.5, 2.5, 0.95).half_width == 0.25  # relative to the value
    assert effect(Estimate(1.3512, 1.3212, 1.3821, 0.95)) == ("1.351", "1.321-1.382")
    assert effect(None) == ("-", "-")


@dataclass(frozen=True)
class Row:
    case: str
    ratio: Estimate | None
    floor: Interval | None
    others: list[Interval]


def test_a_record_is_flat_in_json() -> None:
    row = Row("a", Estimate(1.2, 1.1, 1.3, 0.95), Interval(0.9, 1.05), [])
    figures = [("ratio", 1.2), ("ratio_low", 1.1), ("ratio_high", 1.3)]
    ends = [("floor_low", 0.9), ("floor_high", 1.05)]
    assert list(flat(row).items()) == [("case", "a"), *figures, *ends, ("others", [])]
    absent = dict.fromkeys(name for name, _ in (*figures, *ends))
    assert flat(Row("a", None, None, [])) == {"case": "a", "others": [], **absent}
