"""Stage-outs that wait for one of a number of licences, first come, first served."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from analysis.subjects.writers import concurrent_writers

#: Simulated stage-outs, and those left out of the figures, since the queue is empty at first.
_JOBS = 400_000
_FIRST = 20_000


@dataclass(frozen=True)
class Queue:
    """What a number of licences costs nodes that write at Daly's interval."""

    #: Nodes that write, the mean time to interrupt of one, and the length of a write.
    nodes: int
    node_mtti_s: float
    write_s: float
    #: From the end of a stage-out to the start of the next one with its licence.
    handover_s: float
    #: Writes that arrive per second, and writes at once if nothing bounded them, on average.
    arrivals_per_s: float
    writers_unbounded: float
    #: The bound on writers at once.
    licences: int
    #: Share of the time that a licence is taken, handover included. From 1 on the queue grows
    #: without end, and the waits are null.
    utilisation: float
    #: Wait for a licence: mean, and exceeded by 5 % of the stage-outs.
    wait_mean_s: float | None
    wait_95_s: float | None


def waits_s(arrivals_s: Iterable[float], taken_s: Iterable[float], licences: int) -> list[float]:
    """Wait of each stage-out, seconds; `taken_s` is how long each has its licence.

    They start in order of arrival, as jobs of one size and priority do under Slurm.
    """
    free_s = [0.0] * licences
    found = []
    for arrival_s, length_s in zip(arrivals_s, taken_s, strict=True):
        start_s = max(arrival_s, free_s[0])
        heapq.heapreplace(free_s, start_s + length_s)
        found.append(start_s - arrival_s)
    return found


def queue(
    nodes: int, node_mtti_s: float, write_s: float, handover_s: float, licences: int, seed: int
) -> Queue:
    """Simulate nodes that write without coordination: at random times (Poisson), all for `write_s`.

    Raises InputError for values not above 0.
    """
    daly = concurrent_writers(nodes, node_mtti_s, write_s)
    taken_s = write_s + handover_s
    utilisation = daly.writes_per_s * taken_s / licences
    mean_s = most_s = None
    if utilisation < 1:
        between_s = np.random.default_rng(seed).exponential(1 / daly.writes_per_s, _JOBS)
        waits = waits_s(between_s.cumsum().tolist(), [taken_s] * _JOBS, licences)[_FIRST:]
        mean_s, most_s = float(np.mean(waits)), float(np.quantile(waits, 0.95))
    return Queue(
        *(nodes, node_mtti_s, write_s, handover_s),
        *(daly.writes_per_s, daly.concurrent_writers_exact, licences, utilisation),
        *(mean_s, most_s),
    )
