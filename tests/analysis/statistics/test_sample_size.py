import math

import numpy as np
import pytest

from analysis.statistics.aligned_ranks import pairs_needed, shifts
from nimc.base.errors import InputError


def mean_half_width(pairs: int, sd: float) -> float:
    """Half the mean logarithmic width of the interval, by drawing normal runs."""
    drawn = np.random.default_rng(1).normal(0, sd / math.sqrt(2), (300, pairs, 3))
    low, _, high = shifts(drawn)
    return float((high - low).mean() / 2)


@pytest.mark.parametrize(("sd", "half_width"), [(0.01, 0.01), (0.01, 0.005), (0.03, 0.01)])
def test_the_number_just_suffices(sd: float, half_width: float) -> None:
    pairs = pairs_needed(sd, half_width)
    assert mean_half_width(pairs, sd) <= math.log1p(half_width) * 1.05
    assert mean_half_width(pairs - 1, sd) > math.log1p(half_width) * 0.99


def test_many_pairs_follow_the_normal_limit() -> None:
    # One run against two: sqrt(3)/2 of the spread; ranks need pi/3 times as many pairs.
    pairs = pairs_needed(0.1, 0.01)
    limit = math.pi / 3 * (1.959964 * math.sqrt(3) / 2 * 0.1 / math.log(1.01)) ** 2
    assert pairs == pytest.approx(limit, rel=0.02)


def test_never_fewer_than_six_and_none_where_the_cap_is_too_low() -> None:
    assert (pairs_needed(0.0, 0.01), pairs_needed(1e-6, 0.5)) == (6, 6)
    assert pairs_needed(0.1, 0.01, most=100) is None


@pytest.mark.parametrize(("sd", "half_width"), [(-1, 0.1), (0.1, 0), (math.nan, 0.1)])
def test_refuses_what_cannot_be(sd: float, half_width: float) -> None:
    with pytest.raises(InputError, match=r"^pairs: "):
        pairs_needed(sd, half_width)
