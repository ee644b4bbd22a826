"""Tests comparisons of nights.

Right results are worked out by hand, by other programs, or from many random trials.
"""

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
    ratio_of_next_nights,
    ratio_of_nights,
    ratio_of_two,
)
from analysis.statistics.interval import Estimate


def nights(*logs: float) -> list[float]:
    """Return figures of nights with these natural logarithms."""
    return [math.exp(log) for log in logs]


def logs_of(estimate: Estimate) -> list[float]:
    """Return the logarithms of the lower end, the value and the upper end."""
    return [math.log(end) for end in (estimate.low, estimate.value, estimate.high)]


def test_two_sides_of_nights_by_hand() -> None:
    """The difference is 5. Each side has the variance 1, so the standard error is sqrt(2/3).

    There are 4 degrees of freedom; printed tables have 2.776445 for t of 97.5 %.
    """
    difference = ratio_of_nights(nights(5, 6, 7), nights(0, 1, 2))
    half = 2.776445 * math.sqrt(2 / 3)
    assert logs_of(difference.ratio) == pytest.approx([5 - half, 5, 5 + half], abs=1e-6)
    # t = 6.12; printed tables have 4.604 for 0.01 and 8.610 for 0.001.
    assert 0.001 < difference.p < 0.01


def test_one_new_night_is_judged_by_the_spread_of_the_others() -> None:
    """The difference is 3, the standard error sqrt(1 + 1/3).

    There are 2 degrees of freedom; t of 97.5 % is 4.302653.
    """
    difference = ratio_of_nights(nights(4), nights(0, 1, 2))
    half = 4.302653 * math.sqrt(4 / 3)
    assert logs_of(difference.ratio) == pytest.approx([3 - half, 3, 3 + half], abs=1e-5)
    # The least change with p = 0.05 is as large as the half-width.
    assert math.log1p(difference.least_change(0.05)) == pytest.approx(half, abs=1e-5)


def test_a_wide_interval_ends_at_a_factor_of_a_million_either_way() -> None:
    """Two nights that differ by a factor of 3 give Welch's t one degree of freedom.

    Their standard error is ln(3) / 2 = 0.549, and t is 636 for 0.1 % and 63657 for 0.001 %, by
    printed tables: without a limit, the least change would be e^349, and more than a float holds.
    """
    difference = ratio_of_nights(nights(*[0.001 * n for n in range(11)]), [1, 3], correlation=0.95)
    assert difference is not None
    ratio = difference.ratio
    assert (ratio.value / ratio.low, ratio.high / ratio.value) == pytest.approx((1e6, 1e6))
    for level in (1e-3, 1e-5):
        assert difference.least_change(level) == pytest.approx(999_999)


@pytest.mark.parametrize(
    ("first_nights", "second_nights", "spread"),
    [(5, 5, 1.0), (5, 5, 3.0), (9, 3, 3.0), (3, 9, 3.0), (2, 2, 1.0)],
)
def test_the_p_value_is_the_larger_one_of_student_and_welch(
    first_nights: int, second_nights: int, spread: float
) -> None:
    """The right p values are those of SciPy's tests.

    `spread` is the standard deviation of the first side divided by that of the second.
    """
    rng = np.random.default_rng(3)
    first_logs = rng.normal(0.02, 0.01 * spread, first_nights)
    second_logs = rng.normal(0, 0.01, second_nights)
    student = stats.ttest_ind(first_logs, second_logs, equal_var=True).pvalue
    welch = stats.ttest_ind(first_logs, second_logs, equal_var=False).pvalue
    difference = ratio_of_nights(nights(*first_logs), nights(*second_logs))
    assert difference.p == pytest.approx(max(student, welch))


def test_a_side_without_spread_has_welchs_degrees_of_freedom() -> None:
    """There are two degrees of freedom; t of 97.5 % is 4.302653."""
    *_, high = logs_of(ratio_of_nights(nights(5, 5, 5), nights(0, 1, 2)).ratio)
    assert high == pytest.approx(4 + 4.302653 / math.sqrt(3), abs=1e-5)


@pytest.mark.parametrize(("correlation", "variance"), [(0.0, 3), (0.5, 7)])
def test_correlated_nights_widen_the_interval_of_independent_ones(
    correlation: float, variance: float
) -> None:
    """Tenths: -1 and 1 are compared with 3. With 1 degree of freedom, t of 97.5 % is 12.7062.

    For independent nights, the sum of squares is 2 and the variance 2 (1 + 1/2) = 3. For nights
    with a correlation r = 1/2, the sum of squares is 2 / (1 - r) = 4, the relative variance of the
    mean (1 + r) / 2 = 3/4, and the variance 4 (1 + 3/4) = 7.
    """
    difference = ratio_of_nights(nights(0.3), nights(-0.1, 0.1), correlation)
    half = 0.1 * 12.7062 * math.sqrt(variance)
    assert logs_of(difference.ratio) == pytest.approx([0.3 - half, 0.3, 0.3 + half], rel=1e-5)
    assert difference.widening == pytest.approx(math.sqrt(variance / 3))


def test_the_next_night_of_each_side_varies_as_much_as_the_nights_before() -> None:
    """The difference is 5, with an error of sqrt(1/3 + 1/3 + 1 + 1) at 4 degrees of freedom."""
    interval = ratio_of_next_nights(nights(5, 6, 7), nights(0, 1, 2))
    half = 2.776445 * math.sqrt(8 / 3)
    assert [math.log(end) for end in interval] == pytest.approx([5 - half, 5 + half], abs=1e-6)


@pytest.mark.parametrize("count", [3, 12])
def test_the_ratio_of_the_next_nights_is_covered_at_95_percent(count: int) -> None:
    """Of 2000 ratios, 1900 should be covered; three standard errors are 29. Welch's is wider."""
    rng = np.random.default_rng(8)
    covered = 0
    for logs in rng.normal(0, 0.01, (2000, 2, count + 1)):
        x, y = np.exp(logs)
        low, high = ratio_of_next_nights(x[:-1], y[:-1])
        covered += low <= x[-1] / y[-1] <= high
    assert 1871 <= covered <= 1960


def test_one_night_on_each_side_gives_no_comparison() -> None:
    assert ratio_of_nights([1.2], [1.1]) is None
    assert ratio_of_nights([], [1.1, 1.2, 1.3]) is None
    assert mean_of_nights([1.2]) is None


def test_equal_nights_without_spread_do_not_differ() -> None:
    difference = ratio_of_nights([2.0] * 3, [2.0] * 3)
    assert (difference.p, difference.widening) == (1.0, 1.0)


def test_other_nights_without_spread_differ_for_certain() -> None:
    difference = ratio_of_nights([3.0] * 3, [2.0] * 3)
    assert difference.p == 0.0
    assert difference.ratio.low == pytest.approx(1.5)


def correlation_matrix(correlation: float, count: int) -> np.ndarray:
    """Return the correlations of nights whose neighbours correlate, shape (count, count)."""
    distances = np.abs(np.subtract.outer(range(count), range(count)))
    return np.asarray(correlation**distances, dtype=float)


def correlated_nights(
    rng: np.random.Generator, correlation: float, rows: int, count: int
) -> np.ndarray:
    """Return figures of nights whose neighbours correlate, shape (rows, count)."""
    factors = np.linalg.cholesky(correlation_matrix(correlation, count))
    return np.asarray(np.exp(0.01 * rng.standard_normal((rows, count)) @ factors.T))


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9])
def test_the_error_of_correlated_nights_follows_from_their_covariances(correlation: float) -> None:
    """The right error is computed by generalised least squares with the whole covariance matrix.

    With 6 degrees of freedom, t of 97.5 % is 2.446912.
    """
    values = correlated_nights(np.random.default_rng(5), correlation, 1, 7)[0]
    covariance = correlation_matrix(correlation, 7)
    inverse, ones, logs = np.linalg.inv(covariance), np.ones(7), np.log(values)
    residuals = logs - (ones @ inverse @ logs) / (ones @ inverse @ ones)
    error_if_independent = logs.std(ddof=1) / math.sqrt(7)
    correlated_error = math.sqrt(residuals @ inverse @ residuals / 6 * covariance.mean())
    error = max(correlated_error, error_if_independent)
    mean = mean_of_nights(values.tolist(), correlation)
    assert math.log(mean.high / mean.value) == pytest.approx(2.446912 * error, rel=1e-5)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.9])
def test_the_correlation_of_many_nights_is_found(correlation: float) -> None:
    rng = np.random.default_rng(9)
    sides = [correlated_nights(rng, correlation, 20, 40).tolist() for _ in range(2)]
    result = correlation_of_nights(list(zip(*sides, strict=True)))
    assert result.estimate == pytest.approx(correlation, abs=0.07)
    assert correlation <= result.at_most <= correlation + 0.15


@pytest.mark.parametrize("copies", [1, 10])
def test_the_largest_correlation_is_rarely_missed_however_alike_rows_are(copies: int) -> None:
    """Ten copies of a row give no more information than one row.

    Of 300 trials, 5 % and three standard errors more may miss the correlation, which is 26.
    """
    rng, missed = np.random.default_rng(10), 0
    for _ in range(300):
        sides = [correlated_nights(rng, 0.6, 1, 10).tolist() * copies for _ in range(2)]
        missed += correlation_of_nights(list(zip(*sides, strict=True))).at_most < 0.6
    assert missed <= 26


def test_nights_that_alternate_are_compared_with_their_neighbours() -> None:
    """Differences are 1, 2 and 3, so the standard error is 1 / sqrt(3).

    With 2 degrees of freedom, t of 97.5 % is 4.302653.
    """
    difference = ratio_of_alternating(nights(11, 32, 53), nights(10, 30, 50))
    half = 4.302653 / math.sqrt(3)
    assert logs_of(difference.ratio) == pytest.approx([2 - half, 2, 2 + half], abs=1e-6)
    assert difference.p == pytest.approx(stats.ttest_rel([11, 32, 53], [10, 30, 50]).pvalue)
    assert ratio_of_alternating(nights(1, 2), nights(1, 2)).p == 1


@pytest.mark.parametrize(("first", "second"), [((11, 32, 53), (10, 30)), ((11,), (10,))])
def test_alternating_nights_need_at_least_two_complete_pairs(
    first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    assert ratio_of_alternating(nights(*first), nights(*second)) is None


@pytest.mark.slow
def test_a_history_of_thirty_nights_or_more_gives_their_correlation() -> None:
    rng = np.random.default_rng(14)
    series = correlated_nights(rng, 0.3, 20, 60).tolist()
    result = correlation_of_history(series)
    assert result.history_nights == 60
    assert 0.3 <= result.at_most <= 0.5
    # A series with missing nights is left out.
    assert correlation_of_history([*series, [1.0] * 40]) == result
    assert correlation_of_history([row[:29] for row in series]) is None
    assert correlation_of_history([]) is None


@pytest.mark.slow
def test_the_last_200_nights_of_a_history_count() -> None:
    series = correlated_nights(np.random.default_rng(14), 0.3, 2, 300).tolist()
    assert correlation_of_history(series).history_nights == 200


@pytest.mark.parametrize("sides", [[([1.0, 1.1], [1.2, 1.1])], [([1.0, 1.0, 1.0], [2.0, 2.0])], []])
def test_the_worst_correlation_is_assumed_for_few_nights_or_nights_without_spread(
    sides: list[tuple[list[float], list[float]]],
) -> None:
    correlation = correlation_of_nights(sides)
    assert (correlation.estimate, correlation.at_most) == (None, 0.95)
    assert correlation.is_worst


@pytest.mark.parametrize(
    ("first_nights", "second_nights", "correlation"), [(3, 3, 0.6), (8, 5, 0.3), (10, 10, 0.6)]
)
def test_mean_and_deviation_of_products_of_neighbours_are_those_of_random_nights(
    first_nights: int, second_nights: int, correlation: float
) -> None:
    """The right values are those of 20,000 random draws.

    Each draw gives the sum of products of neighbours divided by the sum of squares, with deviations
    from the mean of each side.
    """
    rng = np.random.default_rng(12)
    products, squares = np.zeros(20_000), np.zeros(20_000)
    for count in (first_nights, second_nights):
        logs = np.log(correlated_nights(rng, correlation, 20_000, count))
        centred = logs - logs.mean(axis=1, keepdims=True)
        products += (centred[:, 1:] * centred[:, :-1]).sum(axis=1)
        squares += (centred**2).sum(axis=1)
    ratios = products / squares
    expected = neighbour_ratio(first_nights, second_nights, correlation)
    assert expected == pytest.approx((ratios.mean(), ratios.std()), abs=0.025)


@pytest.mark.parametrize(
    ("cosine", "freedom", "rows"),
    # For 2 rows with 4 degrees of freedom, chance makes the squared cosine 1/4. So the sum of
    # squared cosines without chance is (2 + 2 c^2 - 4/4) / (3/4), and the number of rows is 4 over
    # this.
    [(0.0, 4, 2.0), (0.625**0.5, 4, 4 / 3), (1.0, 4, 1.0), (1.0, 1, 2.0)],
)
def test_rows_that_are_alike_count_as_fewer(cosine: float, freedom: int, rows: float) -> None:
    centred = np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])
    assert count_independent_rows(centred, freedom) == pytest.approx(rows)


def test_rows_with_a_missing_night_do_not_count() -> None:
    rows = correlated_nights(np.random.default_rng(11), 0.6, 5, 9).tolist()
    complete = [(row, row[::-1]) for row in rows]
    incomplete = [(row[1:], row) for row in rows]
    assert correlation_of_nights([*complete, *incomplete]) == correlation_of_nights(complete)


def test_the_mean_of_nights_is_the_geometric_one() -> None:
    """Logarithms are 0, 1 and 2, so the standard error is 1 / sqrt(3).

    With two degrees of freedom, t of 97.5 % is 4.302653.
    """
    half = 4.302653 / math.sqrt(3)
    mean = mean_of_nights(nights(0, 1, 2))
    assert logs_of(mean) == pytest.approx([1 - half, 1, 1 + half], rel=1e-5)


def test_the_ratio_of_two_estimates_adds_their_distances_in_quadrature() -> None:
    """In logarithms, the first interval reaches 3 below and 4 above its value.

    The second reaches 12 below and 4 above.
    """
    first = Estimate(value=math.exp(5), low=math.exp(2), high=math.exp(9))
    second = Estimate(value=math.exp(1), low=math.exp(-11), high=math.exp(5))
    low, high = 4 - math.hypot(3, 4), 4 + math.hypot(4, 12)
    assert logs_of(ratio_of_two(first, second)) == pytest.approx([low, 4, high])
