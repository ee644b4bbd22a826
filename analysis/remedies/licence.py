"""How many writers may write at once: the largest measured number within a wanted slowdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.effects.estimate import results
from analysis.samples.columns import read_run
from analysis.simulate.campaign import scales
from analysis.simulate.queue import Queue
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
