"""How many writers may write at once, within a wanted slowdown, and how long others then wait."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.effects.estimate import results
from analysis.samples.columns import read_run
from analysis.simulate.campaign import scales
from analysis.subjects.writers import concurrent_writers
from nimc.base.errors import InputError


@dataclass(frozen=True)
class Measured:
    """A slowdown under a number of writers at once."""

    case: str
    arm: str
    #: Nodes of the application, and writers at once.
    nodes: int
    writers: int
    #: Pairs of runs that the estimate is from.
    pairs: int
    #: With its interval of 95 %.
    slowdown: float
    slowdown_low: float
    slowdown_high: float
    #: As in `results.json`.
    verdict: str
    #: The runs allow a statement, and the upper limit is within the wanted slowdown.
    fits: bool
    #: Writes were emulated, and say nothing of hardware.
    emulated: bool


@dataclass(frozen=True)
class Bound:
    """The number of writers that may write at once."""

    #: 0 if the least measured number does not fit.
    writers: int
    #: What bounds it.
    reason: str
    #: What limits the statement.
    caveats: list[str]
    #: All measured numbers, the smallest first.
    measured: list[Measured]


@dataclass(frozen=True)
class Licence:
    """What `nimc licence` prints; `queue` is null unless asked for, the files without a bound."""

    #: Largest slowdown, time with writers / without; null if the number of licences was given.
    wanted_slowdown: float | None
    #: The number of licences.
    bound: Bound
    #: What waiting for them costs.
    queue: Queue | None
    #: Lines of slurm.conf, and the file next to it.
    slurm_conf: str | None
    job_submit_lua: str | None


def measure(runs: Sequence[Path], wanted: float) -> list[Measured]:
    """All slowdowns of runs under known numbers of writers. Raises InputError if there is none."""
    found = []
    for run in runs:
        effects = results(read_run(run).frame)  # first, since it refuses invalid samples
        of = scales(run)
        for each in effects:
            scale, ratio = of.get((each.case, each.arm)), each.slowdown
            if each.role != "effect" or scale is None or ratio is None:
                continue
            found.append(
                Measured(
                    *(each.case, each.arm, scale.nodes, scale.writers, each.pairs),
                    *(ratio.value, ratio.low, ratio.high),
                    verdict=str(each.verdict),
                    fits=ratio.high <= wanted and not each.verdict.is_not_compared,
                    emulated=each.emulated,
                )
            )
    if not found:
        raise InputError(
            f"{', '.join(map(str, runs))}: no slowdown under a number of writers; allowed: runs of"
            " lammps_scaling with 6 accepted pairs, such as those of the campaign 'licence'"
        )
    return sorted(found, key=lambda each: (each.writers, each.nodes))


def bound(measured: Sequence[Measured], wanted: float) -> Bound:
    """The largest number such that it and all smaller ones fit, in every case.

    Nothing is interpolated. Numbers are tried from the smallest on until one fails, so the chance
    that any accepted one exceeds the wanted slowdown is that of a single interval, 2.5 %.
    """
    failing = next((each for each in measured if not each.fits), None)
    least = failing.writers if failing else float("inf")
    writers = max((each.writers for each in measured if each.writers < least), default=0)
    if failing is None:
        reason = "the largest number measured; a larger one may fit"
    elif failing.slowdown_high > wanted:
        reason = (
            f"{failing.case} under {failing.writers} at once has an upper limit of"
            f" {failing.slowdown_high:.3f}, more than the wanted {wanted:.3f}"
        )
    else:
        reason = f"{failing.case} under {failing.writers} at once: {failing.verdict}"
    caveats = []
    if any(each.emulated for each in measured):
        caveats.append("writes were emulated: the number says nothing of any hardware")
    if len(nodes := sorted({each.nodes for each in measured})) > 1:
        caveats.append(f"measured on {', '.join(map(str, nodes))} nodes, taken together")
    return Bound(writers, reason, caveats, list(measured))


# Stage-outs that wait for one of a number of licences, first come, first served.

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
