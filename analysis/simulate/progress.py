"""The progress of every rank of a synchronised application, step by step, while writes hit nodes.

Ranks lie on a periodic grid, and wait for their neighbours before each step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from records.errors import InputError

Times = npt.NDArray[np.float64]
#: More would fill the memory, and is most likely a wrong unit.
MOST_RANKS = 20_000_000


@dataclass(frozen=True)
class Windows:
    """Writes: the node and time of each, sorted by start and by end alike.

    The application starts at time 0, and ends before them. No two writes hit a node at once.
    """

    node: npt.NDArray[np.int64]
    start_s: Times
    end_s: Times


@dataclass(frozen=True)
class Application:
    """The application: the same work on every rank, and the ranks that wait for each other."""

    ranks: int
    ranks_per_node: int
    steps: int
    #: Work of one rank in one step, seconds without any slowdown.
    step_s: float
    #: Steps between global reductions, in which all ranks wait for all; 0: none.
    reduce_every: int = 0

    def __post_init__(self) -> None:
        """Raises InputError for ranks that do not fill nodes, or are too many."""
        if self.ranks < 1 or self.ranks % self.ranks_per_node:
            raise InputError(
                f"ranks: {self.ranks} do not fill nodes of {self.ranks_per_node}; allowed: a"
                " multiple of the ranks per node"
            )
        if self.ranks > MOST_RANKS:
            raise InputError(f"ranks: {self.ranks} found; allowed: up to {MOST_RANKS}")

    @property
    def nodes(self) -> int:
        """Number of nodes; ranks fill them in order."""
        return self.ranks // self.ranks_per_node

    @property
    def off_s(self) -> float:
        """Its time without writes: summed as the simulation does, so that without any it is 1."""
        return float(np.cumsum(np.full(self.steps, self.step_s))[-1])


def finishing_times(application: Application, windows: Windows, slowdowns: Times) -> Times:
    """When each rank has done its last step, seconds; `slowdowns`: of each rank of a hit node.

    Takes time proportional to ranks and steps, and memory for a few numbers per rank.
    """
    ready_s, finish_s = np.zeros(application.ranks), np.zeros(application.ranks)
    for step in range(1, application.steps + 1):
        wait_for_neighbours(finish_s, ready_s, shape(application.ranks))
        np.add(ready_s, application.step_s, out=finish_s)
        delay_hit_ranks(ready_s, finish_s, application.step_s, windows, slowdowns)
        if application.reduce_every and step % application.reduce_every == 0:
            finish_s.fill(finish_s.max())
    return finish_s


@cache
def shape(ranks: int, dimensions: int = 3) -> tuple[int, ...]:
    """Lengths of the most cubic grid of `ranks`, longest first.

    The last dimension varies fastest with the rank's number.
    """
    if dimensions == 1:
        return (ranks,)
    # The smallest length is the largest divisor up to the root; then the same for the rest.
    root = math.isqrt(ranks) if dimensions == 2 else round(ranks ** (1 / 3))
    least = next(length for length in range(root, 0, -1) if ranks % length == 0)
    return tuple(sorted((*shape(ranks // least, dimensions - 1), least), reverse=True))


def wait_for_neighbours(finish: Times, ready: Times, lengths: tuple[int, ...]) -> None:
    """Set `ready` to the time when each rank and all its neighbours have finished.

    Both arrays have one entry per rank. Neighbours share a face, also across the grid's ends.
    """
    before, after = finish.reshape(lengths), ready.reshape(lengths)
    np.copyto(after, before)
    for axis in range(len(lengths)):
        for side in (-1, 1):
            np.maximum(after, np.roll(before, side, axis), out=after)


def delay_hit_ranks(
    ready_s: Times, finish_s: Times, step_s: float, windows: Windows, slowdowns: Times
) -> None:
    """Correct `finish_s`, which is `ready_s + step_s` so far, of the ranks whose node is hit.

    A rank works at speed 1, and at 1 / slowdown while its node is hit.
    """
    hit = np.flatnonzero(slowdowns > 1)
    last_s = float(ready_s.max()) + step_s * float(slowdowns.max())
    first = int(np.searchsorted(windows.end_s, float(ready_s.min()), side="right"))
    writes = np.arange(first, np.searchsorted(windows.start_s, last_s, side="left"))
    if not writes.size or not hit.size:
        return
    # Per hit rank: the time up to which its work is known, and what is then left of it.
    nodes = np.unique(windows.node[writes])
    ranks = nodes[:, None] * slowdowns.size + hit
    now_s, left_s = ready_s[ranks], np.full(ranks.shape, step_s)
    while writes.size:  # the first write to each node, then the second ones, and so on
        node, place = np.unique(windows.node[writes], return_index=True)
        rows, at = np.searchsorted(nodes, node), writes[place]
        before_s = np.clip(windows.start_s[at, None] - now_s[rows], 0.0, left_s[rows])
        now_s[rows] += before_s
        left_s[rows] -= before_s
        within_s = np.clip(
            windows.end_s[at, None] - now_s[rows], 0.0, left_s[rows] * slowdowns[hit]
        )
        now_s[rows] += within_s
        left_s[rows] -= within_s / slowdowns[hit]
        writes = np.delete(writes, place)
    finish_s[ranks] = now_s + left_s


def rank_slowdowns(ranks_per_node: int, worst: float, slowed: int = 1) -> Times:
    """Slowdown of each rank of a node while it is hit: `slowed` of them have the worst."""
    return np.where(np.arange(ranks_per_node) < slowed, worst, 1.0)
