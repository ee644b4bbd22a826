"""Tests estimates, medians, their texts, and Holm's method, by hand and from textbooks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb

import polars as pl
import pytest

from analysis.statistics.interval import (
    Estimate,
    Interval,
    ends_text,
    estimate_text,
    flat_record,
    holm,
    median_interval,
    median_of,
)


def test_medians_and_their_intervals() -> None:
    assert median_interval([1.3, 1.1, 1.6, 1.2, 1.5, 1.4]) == Estimate(1.35, 1.1, 1.6)
    assert median_interval([10, 1, 9, 2, 8, 3, 7, 4, 6, 5]) == Estimate(5.5, 2, 9)
    assert median_interval([1.0] * 5) is None


def _encloses(n: int, k: int) -> Fraction:
    """Return the probability that the k-th smallest and k-th largest of n enclose the median."""
    return 1 - 2 * Fraction(sum(comb(n, i) for i in range(k)), 2**n)


@pytest.mark.parametrize("n", [6, 7, 8, 9, 17, 40, 111, 200])
def test_the_interval_is_the_narrowest_that_reaches_the_confidence(n: int) -> None:
    estimate = median_interval(range(1, n + 1))
    rank = int(estimate.low)
    assert estimate.high == n + 1 - rank
    assert _encloses(n, rank) >= Fraction(95, 100) > _encloses(n, rank + 1)


def test_an_estimate_lies_within_its_interval_and_is_printed_with_it() -> None:
    with pytest.raises(ValueError, match="outside"):
        Estimate(2.0, 1.0, 1.5)
    assert (
        Estimate(2.0, 1.5, 2.5).relative_half_width == 0.25
    )  # half of the width, divided by the value
    assert ends_text(Estimate(1.3512, 1.3212, 1.3821)) == "1.321-1.382"
    assert (ends_text(None), estimate_text(None)) == ("-", "-")
    # Intervals up to a width of a twentieth have three decimals, wider ones two.
    assert estimate_text(Estimate(1.3512, 1.3264, 1.3761)) == "1.351 [1.326, 1.376]"
    assert estimate_text(Estimate(1.3512, 1.3212, 1.3821)) == "1.35 [1.32, 1.38]"
    estimate = Estimate(2.0, 1.6, 4.0)
    assert estimate.inverse == Estimate(0.5, 0.25, 0.625)
    assert Interval(1.6, 4.0).inverse == Interval(0.25, 0.625)
    assert estimate.mapped(lambda value: 3 * value + 1) == Estimate(7.0, 1 + 3 * 1.6, 13.0)
    assert (Interval.from_estimate(estimate), Interval.from_estimate(None)) == ((1.6, 4.0), None)


def test_the_median_ignores_nulls() -> None:
    assert median_of(pl.Series([1.0, None, 5.0, 2.0])) == 2.0
    assert median_of(pl.Series([], dtype=pl.Float64)) is None


@dataclass(frozen=True)
class Row:
    case: str
    ratio: Estimate | None
    floor: Interval | None
    others: list[Interval]


def test_a_record_is_flat_in_json() -> None:
    row = Row("a", Estimate(1.2, 1.1, 1.3), Interval(0.9, 1.05), [])
    figures = [("ratio", 1.2), ("ratio_low", 1.1), ("ratio_high", 1.3)]
    floor = [("floor_low", 0.9), ("floor_high", 1.05)]
    assert list(flat_record(row).items()) == [("case", "a"), *figures, *floor, ("others", [])]
    absent = dict.fromkeys(name for name, _ in (*figures, *floor))
    assert flat_record(Row("a", None, None, [])) == {"case": "a", "others": [], **absent}


def test_holm_by_hand() -> None:
    # In order: 0.005 x 4, 0.01 x 3, 0.03 x 2 = 0.06, and 0.04 x 1, which is raised to 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert (holm([]), holm([0.2]), holm([0.6, 0.7])) == ([], [0.2], [1.0, 1.0])
