"""Change points of a series by E-divisive: energy statistic and permutation test.

Matteson and James 2014, Journal of the American Statistical Association 109, 334-345. The segment
between two changes is split where the energy distance between both parts is largest; the right part
may end before the segment does, so that a later change does not hide an earlier one. A split counts
if at most a share `LEVEL` of random orders of the segment have as large a distance. It dates
changes; it raises no alarm, since its level holds for one look, not for every night.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

#: Level of one split, and random orders of its test.
LEVEL = 0.05
_ORDERS = 199
#: Fewest nights of a part.
FEWEST = 2


def change_points(values: Values, seed: int = 1) -> list[int]:
    """Indices at which a new level begins, ascending."""
    rng = np.random.default_rng(seed)
    found: list[int] = []
    segments = [(0, len(values))]
    while segments:
        start, end = segments.pop()
        at = _split(np.asarray(values[start:end], dtype=float), rng)
        if at is not None:
            found.append(start + at)
            segments += [(start, start + at), (start + at, end)]
    return sorted(found)


def latest_change(values: Values) -> int:
    """Where the last level began of values that are known to have changed, by index.

    The split with the largest energy distance of all that end with the last value; no test.
    """
    return FEWEST + int(np.argmax(_energies(np.abs(values[:, None] - values))[:, -1]))


def _split(values: Values, rng: np.random.Generator) -> int | None:
    """Where a segment splits; None if no split passes the test."""
    if len(values) < 2 * FEWEST:
        return None
    distances = np.abs(values[:, None] - values)
    energies = _energies(distances)
    largest = energies.max()
    as_large = 0
    for _ in range(_ORDERS):
        order = rng.permutation(len(values))
        as_large += _energies(distances[np.ix_(order, order)]).max() >= largest
        if (1 + as_large) / (1 + _ORDERS) > LEVEL:
            return None
    return FEWEST + int(energies.max(axis=1).argmax())


def _energies(distances: Values) -> Values:
    """Scaled energy distance between the first values of a segment and those that follow.

    By number of values on the left (from `FEWEST`) and by where the right part ends (from
    2 `FEWEST`). With m values on the left and n on the right it is m n / (m + n) times: twice the
    mean distance between both parts, less the mean distances within each.
    """
    size = len(distances)
    total = np.zeros((size + 1, size + 1))
    total[1:, 1:] = distances.cumsum(axis=0).cumsum(axis=1)
    within = np.diagonal(total)
    left = np.arange(FEWEST, size - FEWEST + 1)[:, None]
    end = np.arange(2 * FEWEST, size + 1)[None, :]
    right = np.maximum(end - left, FEWEST)
    cross = total[left, end] - within[left]
    inside = within[end] - 2 * cross - within[left]
    means = 2 * cross / (left * right) - _pairs_mean(within[left], left)
    energies = (means - _pairs_mean(inside, right)) * left * right / (left + right)
    return np.where(end - left < FEWEST, -np.inf, energies)


def _pairs_mean(twice_sum: Values, count: NDArray[np.int64]) -> Values:
    """Mean distance between different values of a part, from the sum over its matrix."""
    mean: Values = twice_sum / (count * (count - 1))
    return mean
