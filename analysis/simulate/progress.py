"""The progress of every rank, step by step."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from nimc.base.errors import InputError

# Ranks on a grid, each of which waits for its neighbours.


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


def rank_slowdowns(ranks_per_node: int, mean: float, worst: float) -> Times:
    """Slowdown of each rank of a node while it is hit: the first is the worst, the others equal.

    `mean` is the mean of all its ranks, `worst` that of the worst. Raises InputError if this mean
    needs a rank that speeds up or one slower than the worst.
    """
    rest = (mean * ranks_per_node - worst) / max(ranks_per_node - 1, 1)
    fits = 1 - 1e-9 <= rest <= worst + 1e-9 if ranks_per_node > 1 else np.isclose(mean, worst)
    if not (worst >= 1 and fits):
        least, most = 1 + (worst - 1) / ranks_per_node, worst
        raise InputError(
            f"slowdown: a worst rank of {worst:g} among {ranks_per_node} must have a mean of "
            f"{least:g} to {most:g}, not {mean:g}"
        )
    slowdowns = np.full(ranks_per_node, min(max(rest, 1.0), worst))
    slowdowns[0] = worst
    return slowdowns


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


# Noise: variation of a step's time that is not caused by writes.


Kind = Literal["none", "exponential", "uniform", "normal"]


@dataclass(frozen=True)
class Noise:
    """Independent for every rank and step, as a share of the step's work.

    `exponential` adds a mean of `share`, `uniform` 0 to `share`; `normal` has mean 0 and standard
    deviation `share`, cut off where a step would be negative.
    """

    kind: Kind = "none"
    share: float = 0.0

    def fill(self, rng: np.random.Generator, step_s: float, work_s: Times) -> None:
        """Fill `work_s` with the work of one step of each rank, seconds; not for `none`."""
        if self.kind == "exponential":
            rng.standard_exponential(out=work_s)
        elif self.kind == "uniform":
            rng.random(out=work_s)
        else:
            rng.standard_normal(out=work_s)
        work_s *= step_s * self.share
        work_s += step_s
        if self.kind == "normal":
            np.maximum(work_s, 0.0, out=work_s)

    def longest(self, draws: int) -> float:
        """A factor on the step that any of `draws` exceeds with a probability of at most 10^-6."""
        tail = math.log(1e6 * max(draws, 1))
        if self.kind == "exponential":
            return 1 + self.share * tail
        if self.kind == "normal":
            return 1 + self.share * math.sqrt(2 * tail)
        return 1 + self.share


NO_NOISE = Noise()
_NOISE = re.compile(r"(exponential|uniform|normal):(\d{1,9}(?:\.\d*)?|\.\d+)%", re.ASCII)


def parse_noise(text: str, field: str) -> Noise:
    """`none`, or a distribution and its share such as `exponential:2%`. Raises InputError."""
    if text == "none":
        return NO_NOISE
    if match := _NOISE.fullmatch(text):
        return Noise(match[1], float(match[2]) / 100)  # type: ignore[arg-type]
    raise InputError(
        f"{field}: {text!r} is not a noise; allowed: none, exponential:2%, uniform:5% or normal:1%"
    )


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
    #: Dimensions of the grid whose neighbours wait for each other in each step; 0: no halo.
    halo: int = 3
    periodic: bool = True
    #: Steps between global reductions, in which all ranks wait for all; 0: none.
    reduce_every: int = 0
    noise: Noise = NO_NOISE

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
        if self.halo not in (0, 1, 2, 3):
            raise InputError(f"halo: {self.halo} dimensions; allowed: 0 to 3")


@dataclass(frozen=True)
class SimulatedRun:
    """Finishing times of one run with writes and of the same run without, seconds."""

    #: Time when the last rank finishes and the application ends.
    on_s: float
    off_s: float
    #: Mean of all ranks.
    on_mean_s: float
    off_mean_s: float

    @property
    def slowdown(self) -> float:
        """Slowdown of the application."""
        return self.on_s / self.off_s

    @property
    def slowdown_mean(self) -> float:
        """Slowdown of the mean rank; the same if ranks are synchronised."""
        return self.on_mean_s / self.off_mean_s


def simulate(
    application: Application, windows: Windows, slowdowns: Times, seed: int
) -> SimulatedRun:
    """Run an application with and without writes, under the same noise.

    `slowdowns` is that of each rank of a hit node. Takes time proportional to ranks and steps, and
    memory for four numbers per rank. Raises InputError if it runs longer than the known writes.
    """
    application.check()
    if application.noise == NO_NOISE:
        (on,) = finishing_times(application, [windows], slowdowns, seed)
        # Summed up step by step, as the simulation does it, so that no write is exactly 1.
        off = np.cumsum(np.full(application.steps, application.step_s))[-1:]
    else:
        on, off = finishing_times(application, [windows, None], slowdowns, seed)
    return SimulatedRun(float(on.max()), float(off.max()), float(on.mean()), float(off.mean()))


def finishing_times(
    application: Application, arms: list[Windows | None], slowdowns: Times, seed: int
) -> list[Times]:
    """When each rank has done its last step under each of `arms`, all with the same noise.

    Seconds, of shape (ranks,) each.
    """
    rng = np.random.Generator(np.random.SFC64(seed))
    work_s = np.full(application.ranks, application.step_s)
    ready_s = np.zeros(application.ranks)
    finish_s = [np.zeros(application.ranks) for _ in arms]
    for step in range(application.steps):
        if application.noise != NO_NOISE:
            application.noise.fill(rng, application.step_s, work_s)
        for windows, times_s in zip(arms, finish_s, strict=True):
            if application.halo and step:
                lengths = shape(application.ranks, application.halo)
                wait_for_neighbours(times_s, ready_s, lengths, application.periodic)
            else:
                np.copyto(ready_s, times_s)
            np.add(ready_s, work_s, out=times_s)
            if windows is not None:
                delay_hit_ranks(ready_s, work_s, times_s, windows, slowdowns)
            if application.reduce_every and (step + 1) % application.reduce_every == 0:
                times_s.fill(times_s.max())
    for windows, times_s in zip(arms, finish_s, strict=True):
        if windows is not None and times_s.max() > windows.until_s:
            raise InputError(
                f"the application takes {times_s.max():g} s; writes are known only up to "
                f"{windows.until_s:g} s"
            )
    return finish_s
