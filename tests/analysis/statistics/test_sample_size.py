import math
import random
import statistics

import pytest

from analysis.errors import InputError
from analysis.statistics.sample_size import pairs_needed


def order_rank(pairs: int) -> int:
    """Largest k such that the k-th of `pairs` values and its mirror cover the median at 95 %."""
    tail, rank = 0.0, 0
    while (tail := tail + math.comb(pairs, rank) / 2**pairs) <= 0.025:
        rank += 1
    return rank


def mean_half_width(pairs: int, sd: float, tries: int = 1500) -> float:
    """Half the mean logarithmic width of the interval, by drawing `pairs` normal ratios."""
    rng, rank = random.Random(1), order_rank(pairs)
    widths = []
    for _ in range(tries):
        values = sorted(rng.gauss(0, sd) for _ in range(pairs))
        widths.append((values[pairs - rank] - values[rank - 1]) / 2)
    return statistics.fmean(widths)


@pytest.mark.parametrize(("sd", "half_width"), [(0.01, 0.01), (0.01, 0.005), (0.03, 0.01)])
def test_the_number_just_suffices(sd: float, half_width: float) -> None:
    pairs = pairs_needed(sd, half_width)
    assert pairs is not None
    assert mean_half_width(pairs, sd) <= math.log1p(half_width) * 1.02
    assert mean_half_width(pairs - 3, sd) > math.log1p(half_width) * 0.98


def test_many_pairs_follow_the_normal_limit() -> None:
    # The median's standard error is sqrt(pi / 2) sd / sqrt(n).
    pairs = pairs_needed(0.1, 0.01)
    limit = (1.959964 * math.sqrt(math.pi / 2) * 0.1 / math.log(1.01)) ** 2
    assert pairs == pytest.approx(limit, rel=0.02)


def test_never_fewer_than_six() -> None:
    assert pairs_needed(0.0, 0.01) == 6
    assert pairs_needed(1e-6, 0.5) == 6


def test_none_where_the_cap_is_too_low() -> None:
    assert pairs_needed(0.1, 0.01, most=100) is None


@pytest.mark.parametrize(("sd", "half_width"), [(-1, 0.1), (0.1, 0), (math.nan, 0.1)])
def test_refuses_what_cannot_be(sd: float, half_width: float) -> None:
    with pytest.raises(InputError, match=r"^pairs: "):
        pairs_needed(sd, half_width)
