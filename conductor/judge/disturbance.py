"""Disturbances of a run at its targets: foreign processes, foreign traffic, wrong rails.

The criteria are the same in all arms. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conductor.counters import TrafficDirection
from conductor.judge.series import Rails
from conductor.readings import NodeSeries
from records.acceptance import AcceptanceLimits
from records.sample import NodeConditions
from records.units import distinguishable, percentage


def exceeded_limits(
    conditions: NodeConditions, series: NodeSeries, limits: AcceptanceLimits
) -> Iterator[str]:
    """Yield a line for each limit that the conditions on a target exceed.

    `series` has the readings on that target.
    """
    cpus, most_cpus = conditions.foreign_cpus, limits.foreign_cpus
    if cpus is not None and most_cpus is not None and cpus > most_cpus:
        used, allowed = distinguishable(cpus, most_cpus, 2)
        yield (
            f"{conditions.node}: foreign processes used {used} hardware threads"
            f" (most: {series.busiest_program or 'unknown'}); allowed: {allowed}"
        )
    steal, most_steal = conditions.steal_share, limits.steal_share
    if steal is not None and most_steal is not None and steal > most_steal:
        stolen, allowed = distinguishable(steal, most_steal, 1, percentage)
        yield (
            f"{conditions.node}: the hypervisor took {stolen} of the processor time; allowed:"
            f" {allowed}"
        )
    drop, hz, usual_hz = limits.frequency_drop, conditions.frequency_hz, series.usual_hz
    if drop is not None and hz and usual_hz and hz < (1 - drop) * usual_hz:
        yield (
            f"{conditions.node}: its cores ran at {hz / 1e9:.2f} GHz, in the accepted runs of this"
            f" block at {usual_hz / 1e9:.2f} GHz; allowed: {percentage(drop)} less"
        )


def foreign_traffic(
    targets: Sequence[NodeConditions],
    direction: TrafficDirection,
    alone_b_s: float,
    limits: AcceptanceLimits,
) -> Iterator[str]:
    """Yield a line if too many bytes passed the targets' devices although nothing wrote.

    `alone_b_s` is the rate of all writers together without an application. Several targets send
    messages to each other. So the bytes that they sent are subtracted from the bytes that they
    received, or the other way round, depending on `direction`.
    """
    several_targets = len(targets) > 1
    passed_b = [_passed_b(target, direction, net=several_targets) for target in targets]
    known_b = [bytes_b for bytes_b in passed_b if bytes_b is not None]
    if limits.foreign_share is None or not alone_b_s or len(known_b) < len(passed_b):
        return
    all_b = sum(known_b)
    over_s = max((target.over_s for target in targets), default=0.0)
    allowed_b = limits.foreign_share * alone_b_s * over_s
    if all_b > allowed_b:
        nodes = ", ".join(target.node for target in targets)
        opposite = "sent" if direction == "received" else "received"
        more = f" more than they {opposite}" if several_targets else ""
        yield (
            f"{nodes} {direction} {all_b / 1e6:.1f} MB{more} ({targets[0].counter}) although"
            f" nothing wrote; allowed: {allowed_b / 1e6:.1f} MB"
        )


def _passed_b(target: NodeConditions, direction: TrafficDirection, *, net: bool) -> float | None:
    """Return the bytes that passed in a direction; if `net`, minus those in the other direction."""
    if target.received_b_s is None or target.sent_b_s is None:
        return None
    if direction == "received":
        rate_b_s, opposite_b_s = target.received_b_s, target.sent_b_s
    else:
        rate_b_s, opposite_b_s = target.sent_b_s, target.received_b_s
    return (rate_b_s - (opposite_b_s if net else 0.0)) * target.over_s


def misrouted_traffic(
    targets: Sequence[NodeConditions], rails: Rails | None, limits: AcceptanceLimits
) -> Iterator[str]:
    """Yield a line for each rail that passed forbidden bytes, or that did not pass required bytes.

    A rail is one of several network devices of a node. Bytes received and sent by all targets are
    added up. Up to `rail_share` of all bytes is ignored as other traffic.
    """
    if not rails or not rails.required:
        return
    share, bytes_by_rail = limits.rail_share, dict.fromkeys(rails.devices, 0)
    for target in targets:
        if not target.devices:
            listed = ", ".join(rails.devices)
            yield f"{target.node}: a rail's byte counter is missing or was set back ({listed})"
            return
        for device in target.devices:
            bytes_by_rail[device.device] += device.received_b + device.sent_b
    all_b = sum(bytes_by_rail.values())
    policy = f"the policy names {', '.join(sorted(rails.required))}"
    for name, bytes_b in bytes_by_rail.items():
        statement = (
            f"{name} passed {bytes_b / 1e6:.2f} of {all_b / 1e6:.2f} MB of all rails; {policy}"
        )
        if name in rails.required and bytes_b <= share * all_b:
            yield f"{statement}; allowed there: more than {percentage(share)}"
        elif name not in rails.allowed and bytes_b > share * all_b:
            yield f"{statement}; allowed elsewhere: {percentage(share)}"
