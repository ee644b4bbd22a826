"""The ratio between two independent sets of values, with its distribution-free interval.

Two nights or two machines share no pairs. The estimate is that of Hodges and Lehmann: the median of
all ratios x/y between the sets. Its interval comes from the rank-sum statistic U, whose
distribution under "x is distributed as r times y" is known whatever the distribution of x: the
d-th smallest and the d-th largest ratio enclose r with probability 1 - 2 P(U < d).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate

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
    tail = (1 - CONFIDENCE) / 2
    rank = int(np.searchsorted(below, tail, side="right"))
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
