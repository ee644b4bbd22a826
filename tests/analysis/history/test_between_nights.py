import math

import numpy as np
import pytest
from scipy import stats

from analysis.history.between_nights import (
    correlation_of_history,
    correlation_of_nights,
    count_independent_rows,
    mean_of_nights,
    neighbour_ratio,
    ratio_of_alternating,
    ratio_of_nights,
    ratio_of_two,
)
from analysis.statistics.interval import Estimate


def nights(*logs: float) -> list[float]:
    """Figures of nights, by their logarithms."""
    return [math.exp(log) for log in logs]


def logs_of(estimate: Estimate) -> list[float]:
    return [math.log(end) for end in (estimate.low, estimate.value, estimate.high)]


def test_two_sides_as_worked_out_by_hand() -> None:
    """Difference 5, each variance 1, standard error sqrt(2/3), 4 degrees of freedom; t of 97.5 % is
    2.776445 in printed tables."""
    difference = ratio_of_nights(nights(5, 6, 7), nights(0, 1, 2))
    half = 2.776445 * math.sqrt(2 / 3)
    assert logs_of(difference.ratio) == pytest.approx([5 - half, 5, 5 + half], abs=1e-6)
    # t = 6.12; printed tables have 4.604 for 0.01 and 8.610 for 0.001.
    assert 0.001 < difference.p < 0.01


def test_one_new_night_is_judged_by_the_spread_of_the_others() -> None:
    """Difference 3, standard error sqrt(1 + 1/3), 2 degrees of freedom (t of 97.5 %: 4.302653)."""
    difference = ratio_of_nights(nights(4), nights(0, 1, 2))
    half = 4.302653 * math.sqrt(4 / 3)
    assert logs_of(difference.ratio) == pytest.approx([3 - half, 3, 3 + half], abs=1e-5)
    # A change as large as the half-width is the least one with p = 0.05.
    assert math.log1p(difference.least_change(0.05)) == pytest.approx(half, abs=1e-5)


def test_the_more_cautious_of_student_and_welch_is_used() -> None:
    rng = np.random.default_rng(3)
    for m, n, spread in [(5, 5, 1.0), (5, 5, 3.0), (9, 3, 3.0), (3, 9, 3.0), (2, 2, 1.0)]:
        x, y = np.exp(rng.normal(0.02, 0.01 * spread, m)), np.exp(rng.normal(0, 0.01, n))
        oracle = [
            stats.ttest_ind(np.log(x), np.log(y), equal_var=equal).pvalue for equal in (True, False)
        ]
        difference = ratio_of_nights(list(x), list(y))
        assert difference.p == pytest.approx(max(oracle))
    # A side without spread has Welch's 2 degrees of freedom.
    *_, high = logs_of(ratio_of_nights(nights(5, 5, 5), nights(0, 1, 2)).ratio)
    assert high == pytest.approx(4 + 4.302653 / math.sqrt(3), abs=1e-5)


def test_correlated_nights_widen_the_interval_of_independent_ones() -> None:
    """Logs -1, 1 against 3, 1 degree of freedom (t of 97.5 %: 12.7062).

    Independent: squares 2, variance 2 (1 + 1/2) = 3. Correlated by r = 1/2: squares 2 / (1 - r), of
    the mean (1 + r) / 2, variance 4 (1 + 3/4) = 7.
    """
    for r, variance in ((0.0, 3), (0.5, 7)):
        difference = ratio_of_nights(nights(3), nights(-1, 1), r)
        half = 12.7062 * math.sqrt(variance)
        assert logs_of(difference.ratio) == pytest.approx([3 - half, 3, 3 + half], rel=1e-5)
        assert difference.widened == pytest.approx(math.sqrt(variance / 3))


def test_one_night_a_side_says_nothing_of_nights() -> None:
    assert ratio_of_nights([1.2], [1.1]) is None
    assert ratio_of_nights([], [1.1, 1.2, 1.3]) is None
    assert mean_of_nights([1.2]) is None


def test_nights_without_any_spread() -> None:
    same, other = ratio_of_nights([2.0] * 3, [2.0] * 3), ratio_of_nights([3.0] * 3, [2.0] * 3)
    assert (same.p, same.widened, other.p) == (1.0, 1.0, 0.0)
    assert other.ratio.low == pytest.approx(1.5)


def _correlated(rng: np.random.Generator, r: float, rows: int, nights: int) -> np.ndarray:
    """Values of nights whose neighbours correlate by `r`, by the factors of their covariances."""
    factors = np.linalg.cholesky(r ** np.abs(np.subtract.outer(range(nights), range(nights))))
    return np.asarray(np.exp(0.01 * rng.standard_normal((rows, nights)) @ factors.T))


@pytest.mark.parametrize("r", [0.0, 0.3, 0.9])
def test_the_error_of_correlated_nights_follows_from_their_covariances(r: float) -> None:
    """Generalised least squares with the whole matrix."""
    values = _correlated(np.random.default_rng(5), r, 1, 7)[0]
    covariance = r ** np.abs(np.subtract.outer(range(7), range(7))).astype(float)
    inverse, one, logs = np.linalg.inv(covariance), np.ones(7), np.log(values)
    rest = logs - (one @ inverse @ logs) / (one @ inverse @ one)
    independent = logs.std(ddof=1) / math.sqrt(7)
    error = max(math.sqrt(rest @ inverse @ rest / 6 * covariance.mean()), independent)
    mean = mean_of_nights(values.tolist(), r)
    assert math.log(mean.high / mean.value) == pytest.approx(2.446912 * error, rel=1e-5)


@pytest.mark.parametrize("r", [0.0, 0.3, 0.6, 0.9])
def test_the_correlation_of_many_nights_is_found(r: float) -> None:
    rng = np.random.default_rng(9)
    sides = [_correlated(rng, r, 20, 40).tolist() for _ in range(2)]
    correlation = correlation_of_nights(list(zip(*sides, strict=True)))
    assert correlation.estimate == pytest.approx(r, abs=0.07)
    assert r <= correlation.at_most <= r + 0.15


@pytest.mark.parametrize("copies", [1, 10])
def test_the_largest_correlation_is_rarely_missed_however_alike_rows_are(copies: int) -> None:
    """Ten copies of a row say no more than one."""
    rng, missed = np.random.default_rng(10), 0
    for _ in range(300):
        sides = [_correlated(rng, 0.6, 1, 10).tolist() * copies for _ in range(2)]
        missed += correlation_of_nights(list(zip(*sides, strict=True))).at_most < 0.6
    # Three standard errors of 300 trials above 5 %.
    assert missed <= 26


def test_nights_that_alternate_are_compared_with_their_neighbours_by_hand() -> None:
    """Differences 1, 2 and 3: t of 2 degrees is 4.302653 at 97.5 %, the error 1 / sqrt(3)."""
    one, other = nights(11, 32, 53), nights(10, 30, 50)
    difference = ratio_of_alternating(one, other)
    half = 4.302653 / math.sqrt(3)
    assert logs_of(difference.ratio) == pytest.approx([2 - half, 2, 2 + half], abs=1e-6)
    assert difference.p == pytest.approx(stats.ttest_rel([11, 32, 53], [10, 30, 50]).pvalue)
    assert ratio_of_alternating(one, other[:2]) is None
    assert ratio_of_alternating(one[:1], other[:1]) is None
    assert ratio_of_alternating(nights(1, 2), nights(1, 2)).p == 1


@pytest.mark.slow
def test_a_history_of_thirty_nights_says_how_much_they_correlate() -> None:
    rng = np.random.default_rng(14)
    series = _correlated(rng, 0.3, 20, 60).tolist()
    known = correlation_of_history(series)
    assert known.history_nights == 60
    assert 0.3 <= known.at_most <= 0.5
    # What some nights lack is left out; the last 200 nights count.
    assert correlation_of_history([*series, [1.0] * 40]) == known
    long = _correlated(rng, 0.3, 2, 300).tolist()
    assert correlation_of_history(long).history_nights == 200
    assert correlation_of_history([row[:29] for row in series]) is None
    assert correlation_of_history([]) is None


def test_few_nights_reject_no_correlation() -> None:
    for sides in ([([1.0, 1.1], [1.2, 1.1])], [([1.0, 1.0, 1.0], [2.0, 2.0])], []):
        correlation = correlation_of_nights(sides)
        worst = (correlation.estimate, correlation.at_most, correlation.is_worst)
        assert worst == (None, 0.95, True)


@pytest.mark.parametrize(("m", "n", "r"), [(3, 3, 0.6), (8, 5, 0.3), (10, 10, 0.6)])
def test_products_of_neighbours_are_as_drawn(m: int, n: int, r: float) -> None:
    rng = np.random.default_rng(12)
    sides = [np.log(_correlated(rng, r, 20_000, nights)) for nights in (m, n)]
    sides = [side - side.mean(axis=1, keepdims=True) for side in sides]
    products = sum((side[:, 1:] * side[:, :-1]).sum(axis=1) for side in sides)
    ratios = products / sum((side**2).sum(axis=1) for side in sides)
    assert neighbour_ratio(m, n, r) == pytest.approx((ratios.mean(), ratios.std()), abs=0.025)


@pytest.mark.parametrize(
    ("cosine", "freedom", "rows"),
    # Of 2 rows with 4 degrees chance alone gives 1/4: (2 + 2 c^2 - 4/4) / (3/4) of 4.
    [(0.0, 4, 2.0), (0.625**0.5, 4, 4 / 3), (1.0, 4, 1.0), (1.0, 1, 2.0)],
)
def test_rows_that_are_alike_count_as_fewer(cosine: float, freedom: int, rows: float) -> None:
    centred = np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])
    assert count_independent_rows(centred, freedom) == pytest.approx(rows)


def test_rows_that_lack_a_night_do_not_count() -> None:
    rng = np.random.default_rng(11)
    full = [(x, x[::-1]) for x in _correlated(rng, 0.6, 5, 9).tolist()]
    short = [(x[1:], x) for x, _ in full]
    assert correlation_of_nights([*full, *short]) == correlation_of_nights(full)


def test_the_mean_of_nights_is_the_geometric_one() -> None:
    """Logs 0, 1 and 2: standard error 1 / sqrt(3), two degrees of freedom, t of 97.5 % 4.302653."""
    half = 4.302653 / math.sqrt(3)
    mean = mean_of_nights(nights(0, 1, 2))
    assert logs_of(mean) == pytest.approx([1 - half, 1, 1 + half], rel=1e-5)


def test_the_ratio_of_two_estimates_adds_their_distances_in_quadrature() -> None:
    x = Estimate(*nights(5, 2, 9))  # 3 below, 4 above
    y = Estimate(*nights(1, -11, 5))  # 12 below, 4 above
    assert logs_of(ratio_of_two(x, y)) == pytest.approx([4 - 5, 4, 4 + math.sqrt(16 + 144)])
