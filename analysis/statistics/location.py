"""Centres of values, one per pair; the ratio between those of two sets; and runs that are hit.

The estimate of a centre is that of Hodges and Lehmann (1963). Its interval holds what Wilcoxon's
signed ranks or Student's t do not reject: ranks alone are too narrow for many values from a skewed
distribution, t alone for few; the wider holds for both. Values may have any sign and unit, other
than the ratios of `analysis.statistics.aligned_ranks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.statistics.aligned_ranks import against_zero, few, score, shifts
from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate

Values = NDArray[np.float64]
#: Steps of the range in which a crossing is sought; its ends are exact to one step.
_STEPS = 1000
#: Either side of an interval, and the quantile at its upper end.
_TAIL, _UPPER = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2


@dataclass(frozen=True)
class Crossing:
    """Where a quantity goes from below zero to above it, within the range that was measured.

    With both ends an interval; with `low` only, it lies above that; with `high` only, below that;
    with neither, it is not decided.
    """

    value: float | None
    low: float | None
    high: float | None


def location(values: Values) -> Estimate | None:
    """The centre of `values` with its interval; None below six."""
    if len(values) < FEWEST:
        return None
    scale = float(np.abs(values).max()) or 1.0
    low, value, high = (centres(few(values) / scale) * scale).tolist()
    return Estimate(value, low, high, CONFIDENCE)


def centres(values: Values) -> Values:
    """Low end, centre and high end, shape (3, ...), of values of shape (..., pairs) near 1."""
    low, centre, high = shifts(against_zero(values))
    mean, error, quantile = _student(values)
    half = quantile * error
    return np.stack([np.minimum(low, mean - half), centre, np.maximum(high, mean + half)])


def p_value(values: Values) -> float:
    """Two-sided p value of 'the centre is zero': the larger of signed ranks' and Student's."""
    from scipy import stats  # takes most of a second

    if len(values) < FEWEST or not np.any(values):
        return 1.0
    mean, error, _ = _student(values)
    student = 2 * special.stdtr(len(values) - 1, -abs(mean) / error) if error > 0 else 0.0
    return max(float(stats.wilcoxon(few(values)).pvalue), float(student))


def crossing(values_at: Callable[[Values], Values], low: float, high: float) -> Crossing:
    """Where in [low, high] the centre of values changes from below zero to above.

    `values_at`: points of shape (n, 1) -> values of the pairs there, shape (n, pairs), of `few`
    pairs. The interval holds every point at which zero is not rejected, as Fieller's (1954) does
    for the ratio of two means, and all points between them. It is open on a side if it reaches that
    end.
    """
    points = np.linspace(low, high, _STEPS + 1)
    values = values_at(points[:, None])
    if values.shape[-1] < FEWEST:
        return Crossing(None, None, None)
    signs = _signs(values)
    (doubtful,) = np.nonzero(signs == 0)
    if not len(doubtful):
        # Decided everywhere: the change is between two points, or on one side of the range.
        doubtful = np.array([(int(np.argmax(signs > 0)) if signs[-1] > 0 else len(points)) - 0.5])
    before, after = int(np.ceil(doubtful[0])) - 1, int(np.floor(doubtful[-1])) + 1
    if (signs[: before + 1] > 0).any() or (signs[after:] < 0).any():
        return Crossing(None, None, None)
    left = float(points[before]) if before >= 0 else None
    right = float(points[after]) if after < len(points) else None
    if left is None or right is None:
        return Crossing(None, left, right)
    distance = np.abs(score(against_zero(values)))
    return Crossing(float(points[distance == distance.min()].mean()), left, right)


def _signs(values: Values) -> Values:
    """-1 or 1 where the centre is shown to be below or above zero, 0 where it is not shown."""
    ranks = score(against_zero(values))
    mean, error, quantile = _student(values)
    shown = (np.abs(ranks) > special.ndtri(_UPPER)) & (np.abs(mean) > quantile * error)
    return np.asarray(np.where(shown & (np.sign(ranks) == np.sign(mean)), np.sign(mean), 0))


def _student(values: Values) -> tuple[Values, Values, float]:
    """Mean, its standard error and the quantile of Student's t, over the last axis."""
    pairs = values.shape[-1]
    error = values.std(axis=-1, ddof=1) / np.sqrt(pairs)
    return values.mean(axis=-1), error, float(special.stdtrit(pairs - 1, _UPPER))


# The ratio between two independent sets of values: two nights or two machines share no pairs. The
# estimate is that of Hodges and Lehmann as well: the median of all ratios x/y between the sets. Its
# interval comes from the rank-sum statistic U, whose distribution under "x is distributed as r
# times y" is known whatever the distribution of x: the d-th smallest and the d-th largest ratio
# enclose r with probability 1 - 2 P(U < d).

#: Up to this product of the sizes the distribution of U is exact, beyond it is normal.
_EXACT_PRODUCT = 2_500
#: A larger set is replaced by this many evenly spaced quantiles, which widens the interval.
_LARGEST_SET = 2_000


def ratio_between(x: Sequence[float], y: Sequence[float]) -> Estimate | None:
    """Ratio of the positive values `x` to `y`; None if either has fewer than 6."""
    if min(len(x), len(y)) < FEWEST:
        return None
    ratios = np.sort(np.divide.outer(_thinned(x), _thinned(y)).ravel())
    below = _below(min(len(x), _LARGEST_SET), min(len(y), _LARGEST_SET))
    rank = int(np.searchsorted(below, _TAIL, side="right"))
    return Estimate(
        float(np.median(ratios)),
        float(ratios[rank - 1]),
        float(ratios[len(ratios) - rank]),
        1 - 2 * float(below[rank - 1]),
    )


def _thinned(values: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=float)
    if len(array) <= _LARGEST_SET:
        return array
    return np.asarray(np.quantile(array, (np.arange(_LARGEST_SET) + 0.5) / _LARGEST_SET))


def _below(m: int, n: int) -> NDArray[np.float64]:
    """P(U < d) for d = 1 ... m n, where U is the rank-sum statistic of sets of m and n values."""
    if m * n > _EXACT_PRODUCT:
        sd = np.sqrt(m * n * (m + n + 1) / 12)
        return np.asarray(special.ndtr((np.arange(m * n) + 0.5 - m * n / 2) / sd))
    # Orders with U = u are the coefficients of prod (1 - q^(m+i)) / (1 - q^i), i = 1 ... n.
    orders = np.zeros(m * n + 1, dtype=object)
    orders[0] = 1
    for i in range(1, n + 1):
        orders[m + i :] = orders[m + i :] - orders[: max(m * n + 1 - m - i, 0)]
        for first in range(i):
            orders[first::i] = np.cumsum(orders[first::i])
    return np.cumsum(orders[:-1]).astype(float) / float(orders.sum())


# How often runs are hit.
#
# A run is hit if it takes longer than the typical run of its treatment by more than the margin, and
# by more than four standard deviations, taken from the median distance to the median (1.4826 of it,
# for normal noise). The share of runs hit has the interval of Clopper and Pearson (1934).

_DEVIATIONS = 4 * 1.4826


@dataclass(frozen=True)
class Hits:
    """Shares of runs that are hit."""

    treated: Estimate
    #: Of the baseline's runs, by the same rule.
    baseline: float


def hits(log_times: Values, margin: float) -> Hits | None:
    """Shares of runs hit; None below six pairs.

    `log_times`: natural logarithms of times relative to the typical baseline run, shape (pairs,
    runs): first the treated run, then the baseline runs, NaN where one is missing.
    """
    pairs = len(log_times)
    if pairs < FEWEST:
        return None
    baselines = log_times[:, 1:][~np.isnan(log_times[:, 1:])]
    hit = int(_hit(log_times[:, 0], margin).sum())
    low = float(special.betaincinv(hit, pairs - hit + 1, _TAIL)) if hit else 0.0
    high = float(special.betaincinv(hit + 1, pairs - hit, 1 - _TAIL)) if hit < pairs else 1.0
    return Hits(Estimate(hit / pairs, low, high, CONFIDENCE), float(_hit(baselines, margin).mean()))


def _hit(logs: Values, margin: float) -> NDArray[np.bool_]:
    above = logs - np.median(logs)
    return np.asarray(above > max(np.log1p(margin), _DEVIATIONS * np.median(np.abs(above))))
