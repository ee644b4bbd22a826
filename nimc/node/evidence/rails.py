"""Which rails a run's bytes passed, compared with those that its policies name. Pure functions.

Rails are the RDMA devices of a node. Policies of the writers and of the application's MPI name
devices; a run counts only if bytes passed each of them, and no other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from nimc.node.evidence import counters
from nimc.node.evidence.counters import Reading, difference
from nimc.records.sample import DeviceBytes, NodeConditions
from nimc.records.treatment import Treatment

#: What a device has received, and sent.
Both = tuple[Reading | None, Reading | None]


class Named(NamedTuple):
    """Devices that bytes must pass, and all that they may pass."""

    required: frozenset[str]
    allowed: frozenset[str]


def total(readings: Sequence[Both]) -> Both:
    """What several devices have received, and sent, together."""
    return (
        counters.total([received for received, _ in readings]),
        counters.total([sent for _, sent in readings]),
    )


def passed(
    devices: Sequence[str], before: Sequence[Both], after: Sequence[Both]
) -> list[DeviceBytes]:
    """The bytes of each device between two readings; empty if one of them has no counter."""
    found = []
    for device, first, last in zip(devices, before, after, strict=True):
        received_b, sent_b = map(difference, first, last)
        if received_b is None or sent_b is None:
            return []
        found.append(DeviceBytes(device, received_b, sent_b))
    return found


def named(treatment: Treatment, rails: Sequence[str], targets: int, writers: int) -> Named:
    """The devices that a treatment names.

    An application on one node sends nothing over them, and one whose MPI chooses by itself may use
    any. `writers` write at a time, each over the next device; a timetable uses the first.
    """
    writes, start = treatment.writes, treatment.start
    required = set[str]()
    if writes and writes.scheduled != 0:
        required |= set(writes.devices[: 1 if writes.scheduled else writers])
    between = targets > 1 and bool(start.ranks)
    if between:
        required |= set(start.devices)
    free = between and not start.devices
    return Named(frozenset(required), frozenset(rails if free else required))


def misrouted(
    nodes: Sequence[NodeConditions], names: Named, rails: Collection[str], share: float
) -> str | None:
    """Which rail passed bytes against the policy, or none although it names it; None if all agree.

    Bytes are those of all target nodes, received and sent. Other traffic, up to `share` of all
    bytes, is no evidence.
    """
    if not names.required:
        return None
    counted = dict.fromkeys(rails, 0)
    for node in nodes:
        if not node.devices:
            listed = ", ".join(rails)
            return f"{node.node}: a rail's byte counter is missing or was set back ({listed})"
        for each in node.devices:
            counted[each.device] += each.received_b + each.sent_b
    all_b = sum(counted.values())
    wanted = ", ".join(sorted(names.required))
    for device, bytes_b in counted.items():
        seen = f"{device} passed {bytes_b / 1e6:.2f} of {all_b / 1e6:.2f} MB of all rails"
        if device in names.required and bytes_b <= share * all_b:
            return f"{seen}; the policy names {wanted}; allowed there: more than {share:.0%}"
        if device not in names.allowed and bytes_b > share * all_b:
            return f"{seen}; the policy names {wanted}; allowed elsewhere: {share:.0%}"
    return None
