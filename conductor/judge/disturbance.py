"""What disturbed a run at its targets: other processes, other traffic, other rails. Pure.

The same criteria hold in all arms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conductor.counters import TrafficDirection
from conductor.judge.series import Rails
from conductor.readings import NodeSeries
from records.acceptance import AcceptanceLimits
from records.sample import NodeConditions
from records.units import distinguishable


def exceeded_limits(
    target: NodeConditions, node: NodeSeries, limits: AcceptanceLimits
) -> Iterator[str]:
    """The limits that a target's conditions exceed, the same ones in all arms."""
    usual_hz = node.usual_hz
    if beyond := _beyond(target.foreign_cpus, limits.foreign_cpus):
        used, most = distinguishable(*beyond, 2, "f")
        yield (
            f"{target.node}: foreign processes used {used} hardware threads"
            f" (most: {node.busiest or 'unknown'}); allowed: {most}"
        )
    if beyond := _beyond(target.steal_share, limits.steal_share):
        took, most = distinguishable(*beyond, 1, "%")
        yield (f"{target.node}: the hypervisor took {took} of the processor time; allowed: {most}")
    drop, hz = limits.frequency_drop, target.frequency_hz
    if drop is not None and hz and usual_hz and hz < (1 - drop) * usual_hz:
        yield (
            f"{target.node}: its cores ran at {hz / 1e9:.2f} GHz, in the accepted runs of this"
            f" block at {usual_hz / 1e9:.2f} GHz; allowed: {drop:.0%} less"
        )


def _beyond(value: float | None, limit: float | None) -> tuple[float, float] | None:
    """Value and limit, if it exceeds a limit that there is."""
    if value is None or limit is None or value <= limit:
        return None
    return value, limit


def foreign_traffic(
    targets: Sequence[NodeConditions],
    direction: TrafficDirection,
    alone_b_s: float,
    limits: AcceptanceLimits,
) -> Iterator[str]:
    """Bytes that passed the targets' devices although nothing wrote.

    Several targets receive each other's messages, which cancel: what they received less what they
    sent is judged.
    """
    several = len(targets) > 1
    gone_b = [_passed_b(target, direction, several=several) for target in targets]
    if limits.foreign_share is None or not alone_b_s or None in gone_b:
        return
    all_b = sum(bytes_b for bytes_b in gone_b if bytes_b is not None)
    over_s = max((target.over_s for target in targets), default=0.0)
    allowed_b = limits.foreign_share * alone_b_s * over_s
    if all_b > allowed_b:
        nodes = ", ".join(target.node for target in targets)
        more = "more " if several else ""
        yield (
            f"{nodes} {direction} {all_b / 1e6:.1f} MB {more}({targets[0].counter}) although"
            f" nothing wrote; allowed: {allowed_b / 1e6:.1f} MB"
        )


def _passed_b(
    target: NodeConditions, direction: TrafficDirection, *, several: bool
) -> float | None:
    """Bytes that passed in a direction, of several targets less those of the other one."""
    both_b_s = target.received_b_s, target.sent_b_s
    this_b_s, other_b_s = both_b_s if direction == "received" else reversed(both_b_s)
    if this_b_s is None or other_b_s is None:
        return None
    return (this_b_s - (other_b_s if several else 0.0)) * target.over_s


def misrouted_traffic(
    targets: Sequence[NodeConditions], rails: Rails | None, limits: AcceptanceLimits
) -> Iterator[str]:
    """Rails that passed bytes against the policy, or none although it names them.

    Bytes are those of all targets, received and sent. Other traffic, up to `rail_share` of all
    bytes, is no evidence.
    """
    if not rails or not rails.required:
        return
    share, counted = limits.rail_share, dict.fromkeys(rails.devices, 0)
    for target in targets:
        if not target.devices:
            listed = ", ".join(rails.devices)
            yield f"{target.node}: a rail's byte counter is missing or was set back ({listed})"
            return
        for device in target.devices:
            counted[device.device] += device.received_b + device.sent_b
    all_b = sum(counted.values())
    policy = f"the policy names {', '.join(sorted(rails.required))}"
    for name, bytes_b in counted.items():
        statement = (
            f"{name} passed {bytes_b / 1e6:.2f} of {all_b / 1e6:.2f} MB of all rails; {policy}"
        )
        if name in rails.required and bytes_b <= share * all_b:
            yield f"{statement}; allowed there: more than {share:.0%}"
        elif name not in rails.allowed and bytes_b > share * all_b:
            yield f"{statement}; allowed elsewhere: {share:.0%}"
