"""When the present level of a series began: the split with the largest energy distance.

E-divisive (Matteson and James 2014, Journal of the American Statistical Association 109, 334-345)
without its permutation test: it dates a change that is known, and finds none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

#: Fewest nights of a part.
FEWEST = 2


def latest_change(values: Values) -> int:
    """Where the last level began of values that are known to have changed, by index."""
    return FEWEST + int(np.argmax(energies(values)))


def energies(values: Values) -> Values:
    """Scaled energy distance between the first values and the others, by number from `FEWEST`.

    With m first and n other values it is m n / (m + n) times: twice the mean distance between both
    parts, less the mean distances within each.
    """
    size = len(values)
    sums = np.abs(values[:, None] - values).cumsum(axis=0).cumsum(axis=1)
    first = np.arange(FEWEST, size - FEWEST + 1)
    others = size - first
    within = np.diagonal(sums)[first - 1]
    cross = sums[first - 1, -1] - within
    inside = sums[-1, -1] - 2 * cross - within
    mean = 2 * cross / (first * others)
    mean -= within / (first * (first - 1)) + inside / (others * (others - 1))
    scaled: Values = mean * first * others / size
    return scaled
