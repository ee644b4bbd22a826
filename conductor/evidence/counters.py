"""Bytes that passed a device, by its own counter; a writer's claim is compared with them.

One table has the files and units of all fabrics. Soft-RoCE counts only packets, so the Ethernet
interface below it is read, which also counts headers and other traffic. Writes over shared memory
pass no device and are not counted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from records import kernel_text
from records.machine import devices
from records.sample import DeviceBytes, NodeConditions
from records.treatment import Treatment

#: Direction of the bytes, seen from the host of the device.
Passed = Literal["received", "sent"]
DIRECTIONS: tuple[Passed, ...] = ("received", "sent")


class _Counter(NamedTuple):
    """Where devices of one kind count the bytes that passed them."""

    #: Name of a reading.
    name: str
    #: Files below the root; `#` and the column of a line that begins with the interface and `:`.
    received: str
    sent: str
    #: Unit of the numbers in them, bytes.
    unit_b: int = 1
    #: The devices' kernel driver; None: any that has the file.
    driver: str | None = None
    #: The value at which it stops; None: it starts again at 0.
    stops_at: int | None = None


_PORT = "sys/class/infiniband/{device}/ports/{port}"
_CXI = "sys/class/cxi/{device}/device/telemetry"
#: The first row whose file has a number counts. Sources of units and widths: docs/injectors.md.
_TABLE = (
    _Counter("cxi:{device}", f"{_CXI}/hni_sts_rx_ok_octets", f"{_CXI}/hni_sts_tx_ok_octets"),
    _Counter(
        "efa:{device}/{port}",
        f"{_PORT}/hw_counters/rx_bytes",
        f"{_PORT}/hw_counters/tx_bytes",
        driver="efa",
    ),
    _Counter(
        "opa:{device}/{port}",
        f"{_PORT}/counters/port_rcv_data",
        f"{_PORT}/counters/port_xmit_data",
        unit_b=8,  # flits, although the file is InfiniBand's
        driver="hfi1",
    ),
    _Counter(
        "rdma:{device}/{port}",
        f"{_PORT}/counters/port_rcv_data",
        f"{_PORT}/counters/port_xmit_data",
        unit_b=4,
        stops_at=2**32 - 1,  # devices without the extended counters of 64 bits
    ),
    # Unlike /sys/class/net it always shows the caller's network namespace.
    _Counter("net:{interface}", "proc/net/dev#0", "proc/net/dev#8"),
)
#: Slingshot's driver prints the time of a reading after it.
_AT = re.compile(r"@[0-9]{1,20}\.[0-9]{9}$")


@dataclass(frozen=True)
class Reading:
    """One reading."""

    #: As in the table, `rdma:mlx5_0/1` or `net:eth0`; several devices are joined by `+`.
    name: str
    bytes_b: int
    #: Whether the counter has reached its largest value and stopped.
    stuck: bool = False
    #: When it was read, seconds by the node's monotonic clock.
    at_s: float = field(default=0.0, compare=False)


def read(device: str | None, passed: Passed, root: Path = Path("/")) -> Reading | None:
    """Bytes that a device or a network interface has received or sent so far.

    None if there is no such device, or it has no counter.
    """
    if device is None:
        return None
    here = devices.chosen(device, root / "sys")
    driver = devices.driver(here.name, root / "sys")
    interface = devices.interface_of(device, root / "sys")
    names = {"device": here.name, "port": here.port, "interface": interface}
    for row in _TABLE:
        if row.driver in (None, driver):
            where = row.received if passed == "received" else row.sent
            count = _number(root, where.format(**names), interface)
            if count is not None:
                name, stuck = row.name.format(**names), count == row.stops_at
                return Reading(name, count * row.unit_b, stuck, time.monotonic())
    return None


def _number(root: Path, where: str, interface: str) -> int | None:
    """The number in a file, or in a column of the interface's line."""
    name, _, column = where.partition("#")
    text = kernel_text.read(root / name)
    if column:
        lines = (line.partition(":") for line in text.splitlines())
        values = next((rest for first, _, rest in lines if first.strip() == interface), "")
        text = "".join(values.split()[int(column) :][:1])
    return kernel_text.number(_AT.sub("", text))


def total(readings: Sequence[Reading | None]) -> Reading | None:
    """The sum over several devices; None if there are none, or one has no counter.

    Devices that share a counter, as soft-RoCE and the interface below, are counted once.
    """
    if not readings or None in readings:
        return None
    known = {reading.name: reading for reading in readings if reading is not None}.values()
    return Reading(
        name="+".join(reading.name for reading in known),
        bytes_b=sum(reading.bytes_b for reading in known),
        stuck=any(reading.stuck for reading in known),
        at_s=max(reading.at_s for reading in known),
    )


def difference(earlier: Reading | None, later: Reading | None) -> int | None:
    """Bytes counted from one reading to the next.

    None if unknown: one is missing, or the counter stopped, or was set back. Raises ValueError for
    readings of different counters.
    """
    if earlier is None or later is None:
        return None
    if earlier.name != later.name:
        raise ValueError(f"{earlier.name} and {later.name} are different counters")
    gone_b = later.bytes_b - earlier.bytes_b
    return None if later.stuck or gone_b < 0 else gone_b


# Which rails a run's bytes passed, compared with those that its policies name.
#
# Rails are the RDMA devices of a node. Policies of the writers and of the application's MPI name
# devices; a run counts only if bytes passed each of them, and no other.


#: What a device has received, and sent.
Both = tuple[Reading | None, Reading | None]


class Named(NamedTuple):
    """Devices that bytes must pass, and all that they may pass."""

    required: frozenset[str]
    allowed: frozenset[str]


def total_of_both(readings: Sequence[Both]) -> Both:
    """What several devices have received, and sent, together."""
    return (
        total([received for received, _ in readings]),
        total([sent for _, sent in readings]),
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
