"""Ranks on a grid, each of which waits for its neighbours."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from analysis.errors import InputError

Times = npt.NDArray[np.float64]


@cache
def shape(ranks: int, dimensions: int) -> tuple[int, ...]:
    """Lengths of the most cubic grid of `ranks` in 1 to 3 dimensions, longest first.

    The last dimension varies fastest with the rank's number. Raises InputError otherwise.
    """
    if ranks < 1 or dimensions not in (1, 2, 3):
        raise InputError(f"halo: a grid of {ranks} ranks in {dimensions} dimensions; allowed: 1-3")
    if dimensions == 1:
        return (ranks,)
    # The smallest length is the largest divisor up to the root; then the same for the rest.
    root = math.isqrt(ranks) if dimensions == 2 else round(ranks ** (1 / 3))
    least = next(length for length in range(root, 0, -1) if ranks % length == 0)
    return tuple(sorted((*shape(ranks // least, dimensions - 1), least), reverse=True))


def wait_for_neighbours(
    finish: Times, ready: Times, lengths: tuple[int, ...], periodic: bool
) -> None:
    """Set `ready` to the time when each rank and all its neighbours have finished.

    Both arrays have one entry per rank. Neighbours share a face.
    """
    _wait_along_rows(finish, ready, lengths[-1], periodic)
    before, after = finish.reshape(lengths), ready.reshape(lengths)
    for axis, length in enumerate(lengths[:-1]):
        low, high, first, last = (
            (slice(None),) * axis + (part,)
            for part in (slice(None, -1), slice(1, None), slice(None, 1), slice(-1, None))
        )
        np.maximum(after[low], before[high], out=after[low])
        np.maximum(after[high], before[low], out=after[high])
        if periodic and length > 2:
            np.maximum(after[first], before[last], out=after[first])
            np.maximum(after[last], before[first], out=after[last])


def _wait_along_rows(finish: Times, ready: Times, length: int, periodic: bool) -> None:
    """Wait for neighbours in the last dimension alone.

    Rows are contiguous in memory, so one sweep over all of them is much faster than many short
    ones; the ends of rows, which then mix, are corrected afterwards.
    """
    ready[0] = finish[0]
    np.maximum(finish[1:], finish[:-1], out=ready[1:])
    np.maximum(ready[:-1], finish[1:], out=ready[:-1])
    before, after = finish.reshape(-1, length), ready.reshape(-1, length)
    for end, inner, opposite in ((0, 1, -1), (-1, -2, 0)):
        near = [end, *([inner] if length > 1 else []), *([opposite] if periodic else [])]
        after[:, end] = before[:, near].max(axis=1)
