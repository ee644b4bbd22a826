"""The progress of every rank, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.errors import InputError
from analysis.simulate.grid import Times, shape, wait_for_neighbours
from analysis.simulate.hits import Windows, delay_hit_ranks
from analysis.simulate.noise import NO_NOISE, Noise

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
            _step(application, step, windows, slowdowns, work_s, ready_s, times_s)
    for windows, times_s in zip(arms, finish_s, strict=True):
        if windows is not None and times_s.max() > windows.until_s:
            raise InputError(
                f"the application takes {times_s.max():g} s; writes are known only up to "
                f"{windows.until_s:g} s"
            )
    return finish_s


def _step(
    application: Application,
    step: int,
    windows: Windows | None,
    slowdowns: Times,
    work_s: Times,
    ready_s: Times,
    finish_s: Times,
) -> None:
    """Advance `finish_s` from the previous step to this one; `ready_s` is overwritten."""
    if application.halo and step:
        lengths = shape(application.ranks, application.halo)
        wait_for_neighbours(finish_s, ready_s, lengths, application.periodic)
    else:
        np.copyto(ready_s, finish_s)
    np.add(ready_s, work_s, out=finish_s)
    if windows is not None:
        delay_hit_ranks(ready_s, work_s, finish_s, windows, slowdowns)
    if application.reduce_every and (step + 1) % application.reduce_every == 0:
        finish_s.fill(finish_s.max())
