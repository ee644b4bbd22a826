"""What pairs of several blocks (allocations) say of the next allocation.

From three on, the spread between allocations is known well enough for Student's prediction
interval from one estimate per allocation, taken as normal. It is wide for three, and wider than
needed where the estimates themselves scatter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.statistics.aligned_ranks import few
from analysis.statistics.interval import CONFIDENCE, Interval

#: Fewest allocations from which the next one is predicted.
FEWEST_BLOCKS = 3
#: Of more pairs in one block, this many evenly spaced ones are used.
_MOST_PAIRS = 300


def next_allocation(blocks: Sequence[NDArray[np.float64]]) -> Interval | None:
    """Interval that covers the slowdown of the next allocation at 95 %; None below three.

    `blocks`: one array per allocation, as for `analysis.statistics.aligned_ranks.slowdown`.
    """
    filled = [block for block in blocks if len(block)]
    if len(filled) < FEWEST_BLOCKS:
        return None
    shifts = np.concatenate(list(_hodges_lehmann(filled)))
    blocks_n = len(shifts)
    quantile = special.stdtrit(blocks_n - 1, (1 + CONFIDENCE) / 2)
    half = quantile * shifts.std(ddof=1) * np.sqrt(1 + 1 / blocks_n)
    low, high = np.exp(shifts.mean() + np.array([-half, half]))
    return Interval(float(low), float(high))


def _hodges_lehmann(blocks: Sequence[NDArray[np.float64]]) -> Iterator[NDArray[np.float64]]:
    """Median of the means of two pairs (or one), for each block; equal sizes are done together."""
    by_size: dict[int, list[NDArray[np.float64]]] = {}
    for block in blocks:
        by_size.setdefault(min(len(block), _MOST_PAIRS), []).append(few(block, _MOST_PAIRS))
    for size, alike in by_size.items():
        log_times = np.stack(alike)
        shifts = log_times[..., 0] - np.nanmean(log_times[..., 1:], axis=-1)
        one, other = np.triu_indices(size)
        yield np.median((shifts[:, one] + shifts[:, other]) / 2, axis=-1)
