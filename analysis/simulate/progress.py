"""The progress of every rank, step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from records.errors import InputError

# Ranks on a grid, each of which waits for its neighbours.


Times = npt.NDArray[np.float64]


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


@dataclass(frozen=True)
class Windows:
    """Writes: the node and time of each, sorted by start and by end alike.

    The application starts at time 0. No two writes hit a node at once.
    """

    node: npt.NDArray[np.int64]
    start_s: Times
    end_s: Times
    #: End of the known writes; an application that runs longer is an error.
    until_s: float


def rank_slowdowns(ranks_per_node: int, worst: float, slowed: int = 1) -> Times:
    """Slowdown of each rank of a node while it is hit: `slowed` of them have the worst."""
    return np.where(np.arange(ranks_per_node) < slowed, worst, 1.0)


def delay_hit_ranks(
    ready_s: Times, work_s: Times, finish_s: Times, windows: Windows, slowdowns: Times
) -> None:
    """Correct `finish_s` for the ranks whose node is hit while they do this step's work.

    All three have one entry per rank, and `finish_s` is `ready_s + work_s` so far. A rank works at
    speed 1, and at 1 / slowdown while its node is hit.
    """
    first_s = float(ready_s.min())
    last_s = float(ready_s.max()) + float(work_s.max()) * float(slowdowns.max())
    low = int(np.searchsorted(windows.end_s, first_s, side="right"))
    high = int(np.searchsorted(windows.start_s, last_s, side="left"))
    affected = np.flatnonzero(slowdowns > 1)
    if low >= high or not affected.size:
        return
    start_s, end_s = windows.start_s[low:high], windows.end_s[low:high]
    hit, row, turn = _turns(windows.node[low:high])
    ranks = hit[:, None] * slowdowns.size + affected
    slow = np.broadcast_to(slowdowns[affected], ranks.shape)
    now_s, left_s = ready_s[ranks], work_s[ranks]
    for number in range(int(turn.max()) + 1):
        of_turn = turn == number
        rows = row[of_turn]
        now_s[rows], left_s[rows] = _through(
            now_s[rows], left_s[rows], start_s[of_turn, None], end_s[of_turn, None], slow[rows]
        )
    finish_s[ranks] = now_s + left_s


def _turns(
    node: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The nodes hit; for each write, its node's index and the number of earlier writes to it."""
    hit, row, count = np.unique(node, return_inverse=True, return_counts=True)
    order = np.argsort(row, kind="stable")
    turn = np.empty_like(row)
    turn[order] = np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
    return hit, row, turn


def _through(
    now_s: Times, left_s: Times, start_s: Times, end_s: Times, slow: Times
) -> tuple[Times, Times]:
    """Time and work left after working up to and through one write, or until the work is done."""
    before_s = np.clip(start_s - now_s, 0.0, left_s)
    now_s, left_s = now_s + before_s, left_s - before_s
    within_s = np.clip(end_s - now_s, 0.0, left_s * slow)
    return now_s + within_s, left_s - within_s / slow


#: More would fill the memory, and is most likely a wrong unit.
MOST_RANKS = 20_000_000


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

    @property
    def nodes(self) -> int:
        """Number of nodes; ranks fill them in order."""
        return self.ranks // self.ranks_per_node

    def check(self) -> None:
        """Raise InputError for invalid values."""
        if self.ranks < 1 or self.ranks_per_node < 1 or self.ranks % self.ranks_per_node:
            raise InputError(
                f"ranks: {self.ranks} do not fill nodes of {self.ranks_per_node}; "
                "allowed: a multiple of the ranks a node"
            )
        if self.ranks > MOST_RANKS:
            raise InputError(f"ranks: {self.ranks} found; allowed: up to {MOST_RANKS}")
        if self.steps < 1 or not self.step_s > 0 or self.reduce_every < 0:
            raise InputError("steps and step: allowed are 1 step or more, each longer than 0 s")


@dataclass(frozen=True)
class SimulatedRun:
    """Times of one run with writes and of the same run without, seconds."""

    #: Time when the last rank finishes and the application ends.
    on_s: float
    off_s: float

    @property
    def slowdown(self) -> float:
        """Slowdown of the application."""
        return self.on_s / self.off_s


def simulate(application: Application, windows: Windows, slowdowns: Times) -> SimulatedRun:
    """Run an application with and without writes.

    `slowdowns` is that of each rank of a hit node. Takes time proportional to ranks and steps, and
    memory for three numbers per rank. Raises InputError if it runs longer than the known writes.
    """
    application.check()
    on_s = float(finishing_times(application, windows, slowdowns).max())
    # Summed up step by step, as the simulation does it, so that no write is exactly 1.
    off_s = np.cumsum(np.full(application.steps, application.step_s))[-1]
    return SimulatedRun(on_s, float(off_s))


def finishing_times(application: Application, windows: Windows, slowdowns: Times) -> Times:
    """When each rank has done its last step, seconds."""
    work_s = np.full(application.ranks, application.step_s)
    ready_s, finish_s = np.zeros(application.ranks), np.zeros(application.ranks)
    for step in range(application.steps):
        wait_for_neighbours(finish_s, ready_s, shape(application.ranks))
        np.add(ready_s, work_s, out=finish_s)
        delay_hit_ranks(ready_s, work_s, finish_s, windows, slowdowns)
        if application.reduce_every and (step + 1) % application.reduce_every == 0:
            finish_s.fill(finish_s.max())
    if finish_s.max() > windows.until_s:
        raise InputError(
            f"the application takes {finish_s.max():g} s; writes are known only up to"
            f" {windows.until_s:g} s"
        )
    return finish_s
