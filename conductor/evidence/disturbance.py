"""What disturbed a run, whatever its arm: conditions on the targets, judged by one criterion. Pure.

A limit of None is not judged; the conditions are recorded all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

from conductor.evidence.counters import Passed, Reading, difference
from records.machine import load
from records.machine.load import HostLoad
from records.notes import Note
from records.plan import LIMITS, Demand
from records.sample import NodeConditions

#: Fewer accepted runs say nothing on the usual frequency.
_LEAST_RUNS = 3


def unjudged(limits: Demand) -> str | None:
    """A note on what is recorded but not judged; None if all is judged."""
    names = [name for name in LIMITS if getattr(limits, name) is None]
    return Note.NOT_JUDGED(limits=", ".join(names)) if names else None


def conditions(
    node: str,
    loads: Sequence[HostLoad],
    used_s: Mapping[str, float],
    frequencies_hz: Sequence[float],
    devices_before: tuple[Reading | None, Reading | None],
    devices_after: tuple[Reading | None, Reading | None],
) -> tuple[NodeConditions, str]:
    """The conditions between the first and the last reading, and the busiest foreign program.

    `used_s` is the time that each foreign program used, and devices are what they had received,
    and sent.
    """
    before, after = loads[0], loads[-1]
    over_s = after.at_s - before.at_s
    shown = before.foreign is not None and after.foreign is not None and over_s > 0
    received_b_s, sent_b_s = map(_rate_b_s, devices_before, devices_after)
    first = devices_before[0]
    found = NodeConditions(
        node=node,
        over_s=over_s,
        foreign_cpus=sum(used_s.values()) / over_s if shown else None,
        steal_share=load.steal_share(before, after),
        frequency_hz=fmean(frequencies_hz) if frequencies_hz else None,
        received_b_s=received_b_s,
        sent_b_s=sent_b_s,
        counter=first.name if first else None,
    )
    return found, max(used_s, key=used_s.__getitem__, default="")


def _rate_b_s(before: Reading | None, after: Reading | None) -> float | None:
    if before is None or after is None or after.at_s <= before.at_s:
        return None
    gone_b = difference(before, after)
    return None if gone_b is None else gone_b / (after.at_s - before.at_s)


def disturbed(
    found: Sequence[NodeConditions],
    busiest: Mapping[str, str],
    accepted: Sequence[Sequence[NodeConditions]],
    limits: Demand,
) -> str | None:
    """Which limit a run's conditions exceed, in one line; None if none.

    `busiest` gives each node's busiest foreign program, `accepted` the conditions of the block's
    accepted runs.
    """
    for each in found:
        usual_hz = _usual_hz(each.node, accepted)
        if _beyond(each.foreign_cpus, limits.foreign_cpus):
            return (
                f"{each.node}: foreign processes used {each.foreign_cpus:.2f} hardware threads"
                f" (most: {busiest.get(each.node) or 'unknown'}); allowed: {limits.foreign_cpus:g}"
            )
        if _beyond(each.steal_share, limits.steal_share):
            return (
                f"{each.node}: the hypervisor took {each.steal_share:.1%} of the processor time;"
                f" allowed: {limits.steal_share:.1%}"
            )
        drop, hz = limits.frequency_drop, each.frequency_hz
        if drop is not None and hz and usual_hz and hz < (1 - drop) * usual_hz:
            return (
                f"{each.node}: its cores ran at {hz / 1e9:.2f} GHz, in the accepted"
                f" runs of this block at {usual_hz / 1e9:.2f} GHz; allowed:"
                f" {drop:.0%} less"
            )
    return None


def _beyond(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit


def _usual_hz(node: str, accepted: Sequence[Sequence[NodeConditions]]) -> float | None:
    known = [
        each.frequency_hz
        for run in accepted
        for each in run
        if each.node == node and each.frequency_hz
    ]
    return median(known) if len(known) >= _LEAST_RUNS else None


def foreign_bytes(
    found: Sequence[NodeConditions], passed: Passed, alone_b_s: float, limits: Demand
) -> str | None:
    """Why a run in which nothing wrote was not silent, in one line; None if it was.

    `passed` is what writes do at the targets' devices, `alone_b_s` the rate of all writers together
    without an application. Several targets receive each other's messages, which cancel: what they
    received less what they sent is judged.
    """
    if limits.foreign_share is None:
        return None
    gone_b = 0.0
    for each in found:
        there_b_s, back_b_s = each.received_b_s, each.sent_b_s
        if passed == "sent":
            there_b_s, back_b_s = back_b_s, there_b_s
        if there_b_s is None or back_b_s is None:
            return None
        gone_b += (there_b_s - (back_b_s if len(found) > 1 else 0.0)) * each.over_s
    allowed_b = limits.foreign_share * alone_b_s * max((each.over_s for each in found), default=0.0)
    if gone_b <= allowed_b:
        return None
    who, more = ", ".join(each.node for each in found), "" if len(found) == 1 else "more "
    return (
        f"{who} {passed} {gone_b / 1e6:.1f} MB {more}({found[0].counter}) although nothing wrote;"
        f" allowed: {allowed_b / 1e6:.1f} MB"
    )


def paused(longest_s: float, clock_s: float, limits: Demand) -> str | None:
    """Why a run is rejected in which the conductor stood still, in one line; None if it did not.

    `longest_s` is the longest time that it did not run, `clock_s` how much further the wall clock
    moved on than the monotonic one.
    """
    if longest_s > limits.pause_s:
        return f"the conductor did not run for {longest_s:.1f} s"
    if abs(clock_s) > limits.pause_s:
        return f"the wall clock moved by {clock_s:+.1f} s against the monotonic clock"
    return None
