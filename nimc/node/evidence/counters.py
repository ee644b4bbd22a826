"""Bytes that passed a device, by its own counter; a writer's claim is compared with them.

RDMA hardware counts words of four bytes at each port. Soft-RoCE counts only packets, so the
Ethernet interface below it is read, which also counts headers and other traffic. Writes over
shared memory pass no device and are not counted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nimc.base import kernel_text
from nimc.machine import devices

#: Direction of the bytes, seen from the host of the device.
Passed = Literal["received", "sent"]
DIRECTIONS: tuple[Passed, ...] = ("received", "sent")

#: Unit of port_rcv_data and port_xmit_data, bytes (InfiniBand specification, PortCounters).
_WORD_B = 4
#: The 32-bit counters stop at their largest value.
_STUCK_WORDS = 2**32 - 1
_PORT = {"received": "port_rcv_data", "sent": "port_xmit_data"}
#: Columns of /proc/net/dev after the interface's name.
_NET = {"received": 0, "sent": 8}


@dataclass(frozen=True)
class Reading:
    """One reading."""

    #: `rdma:DEVICE/PORT` or `net:INTERFACE`; several devices are joined by `+`.
    name: str
    bytes_b: int
    #: Whether the counter has reached its largest value and stopped.
    stuck: bool = False
    #: When it was read, seconds by the node's monotonic clock.
    at_s: float = field(default=0.0, compare=False)


def read(
    device: str | None, passed: Passed, root: Path = Path("/"), port: int = 1
) -> Reading | None:
    """Bytes that an RDMA device or a network interface has received or sent so far.

    None if there is no such device, or it has no counter.
    """
    if device is None:
        return None
    ports = root / "sys/class/infiniband" / device / "ports" / str(port) / "counters"
    words = kernel_text.number(kernel_text.read(ports / _PORT[passed]))
    if words is not None:
        name, stuck = f"rdma:{device}/{port}", words == _STUCK_WORDS
        return Reading(name, words * _WORD_B, stuck, time.monotonic())
    interface = devices.interface_of(device, root / "sys")
    total = _interface_b(root / "proc/net/dev", interface, _NET[passed])
    return None if total is None else Reading(f"net:{interface}", total, at_s=time.monotonic())


def total(readings: Sequence[Reading | None]) -> Reading | None:
    """The sum over several devices; None if there are none, or one has no counter."""
    known = [reading for reading in readings if reading is not None]
    if not known or len(known) < len(readings):
        return None
    return Reading(
        name="+".join(reading.name for reading in known),
        bytes_b=sum(reading.bytes_b for reading in known),
        stuck=any(reading.stuck for reading in known),
        at_s=max(reading.at_s for reading in known),
    )


def difference(earlier: Reading, later: Reading) -> int | None:
    """Bytes counted from one reading to the next; None if unknown: it stopped, or was set back.

    Raises ValueError for readings of different counters.
    """
    if earlier.name != later.name:
        raise ValueError(f"{earlier.name} and {later.name} are different counters")
    gone_b = later.bytes_b - earlier.bytes_b
    return None if later.stuck or gone_b < 0 else gone_b


def _interface_b(path: Path, interface: str, column: int) -> int | None:
    """A column of /proc/net/dev, which unlike /sys always shows the caller's network namespace."""
    for line in kernel_text.read(path).splitlines():
        name, _, values = line.partition(":")
        if name.strip() == interface:
            return kernel_text.number("".join(values.split()[column : column + 1]))
    return None
