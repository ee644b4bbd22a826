"""Reads the bytes that a device has received and sent from the device's own counter.

They are compared with the bytes that writers report. `records.machine.fabrics` has the files and
units. Soft-RoCE counts only packets. So the Ethernet interface below it is read, which also counts
headers and other traffic. Writes over shared memory pass no device, so they are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from records import kernel_text
from records.machine import devices
from records.machine.fabrics import FABRICS, Counter
from records.text import one_line

#: Direction of bytes, as the host of the device sees them.
TrafficDirection = Literal["received", "sent"]
DIRECTIONS: tuple[TrafficDirection, ...] = ("received", "sent")

#: Number of periods after which a device's update of its counter is overdue.
_OVERDUE_PERIODS = 1.5
#: The time stamp that Slingshot's driver prints after a number.
_TIME_STAMP = re.compile(r"@[0-9]{1,20}\.[0-9]{9}$")


@dataclass(frozen=True)
class CounterReading:
    """One reading of a byte counter."""

    #: Name of the counter, as in the table of fabrics: `rdma:mlx5_0/1`, `net:eth0`.
    name: str
    #: Bytes counted so far; None if the counter has stopped at its largest value.
    bytes_b: int | None
    #: Time between two updates by the device, seconds; 0: the reading is up to date.
    period_s: float = 0.0


def read(
    device: str | None, direction: TrafficDirection, root: Path = Path("/")
) -> CounterReading | None:
    """Return the bytes that a device or a network interface has received or sent so far.

    None if there is no such device, or if it has no counter. If its fabric has several counters,
    the first counter whose files all contain numbers is read.
    """
    if device is None:
        return None
    placeholders = _placeholders(device, root)
    interface = placeholders["interface"]
    for counter in _counters(device, root):
        locations = counter.received if direction == "received" else counter.sent
        counts = [
            _count(root, location.format(**placeholders), interface) for location in locations
        ]
        known_counts = [count for count in counts if count is not None]
        if len(known_counts) == len(counts):
            stopped = counter.stops_at in known_counts
            total_b = None if stopped else sum(known_counts) * counter.unit_b
            return CounterReading(counter.name.format(**placeholders), total_b, counter.period_s)
    return None


def read_one_sided(device: str, direction: TrafficDirection, root: Path = Path("/")) -> int | None:
    """Return the bytes of RDMA writes received by a device, or of RDMA reads that it answered.

    None if the device does not count them. They are counted only on fabrics on which some writes
    are one-sided and others are not.
    """
    fabric = devices.fabric(device, root / "sys")
    counter = fabric.one_sided_counter if fabric else None
    if counter is None:
        return None
    location = counter.received if direction == "received" else counter.sent
    return _count(root, location.format(**_placeholders(device, root)), "")


def why_no_count(device: str, root: Path = Path("/")) -> str:
    """Return why the bytes that a device receives are not counted.

    If devices of its driver have files with a count, these are named, with what they contain.
    """
    placeholders = _placeholders(device, root)
    interface = placeholders["interface"]
    locations = [
        location.format(**placeholders)
        for counter in _counters(device, root)
        for location in counter.received
    ]
    contents = [
        _content_without_count(root, location, interface)
        for location in locations
        if _count(root, location, interface) is None
    ]
    return "; ".join(dict.fromkeys(contents)) or "no counter of its driver is known"


def _content_without_count(root: Path, location: str, interface: str) -> str:
    """Return the name of a counter's file, and what it contains in place of a number."""
    name, _, column = location.partition("#")
    path = root / name
    if column:
        content = f"no {interface}"
    else:
        try:
            content = one_line(path.read_text(errors="replace").strip()) or "empty"
        except FileNotFoundError:
            content = "missing"
        except OSError as error:
            content = one_line(error.strerror or str(error))
    return f"{path.parent.name}/{path.name}: {content}"


def _counters(device: str, root: Path) -> list[Counter]:
    """Return the counters of a device's fabric that may count its bytes."""
    folder = devices.folder_of(devices.resolve(device, root / "sys").name, root / "sys")
    if folder is None:
        return list(FABRICS["tcp"].counters)
    fabric, driver = devices.fabric_of(folder), devices.driver(folder)
    counters = fabric.counters if fabric else ()
    return [counter for counter in counters if not counter.drivers or driver in counter.drivers]


def _placeholders(device: str, root: Path) -> dict[str, str]:
    """Return a device's values for the placeholders in names of counters and files."""
    device_port = devices.resolve(device, root / "sys")
    interface = devices.interface_of(device, root / "sys")
    return {"device": device_port.name, "port": str(device_port.port), "interface": interface}


def _count(root: Path, location: str, interface: str) -> int | None:
    """Return the number in `FILE`; for `FILE#COLUMN`, in that column of the interface's line.

    None if there is no number.
    """
    name, _, column = location.partition("#")
    text = kernel_text.read(root / name)
    if not column:
        return kernel_text.number(_TIME_STAMP.sub("", text))
    for line in text.splitlines():
        key, _, values = line.partition(":")
        if key.strip() == interface:
            columns = values.split()
            return kernel_text.number(columns[int(column)]) if int(column) < len(columns) else None
    return None


def slowest_period_s(names: Iterable[str], root: Path = Path("/")) -> float:
    """Return the longest time between two updates of devices' counters, seconds.

    0 if all counters are always up to date, or if there is no counter.
    """
    readings = [read(name, "received", root) for name in names]
    return max((reading.period_s for reading in readings if reading), default=0.0)


def settling_s(period_s: float) -> float:
    """Return the time after which a counter shows all bytes that have passed, seconds."""
    return _OVERDUE_PERIODS * period_s


def may_be_old(period_s: float, age_s: float) -> bool:
    """Return whether an unchanged counter is normal `age_s` seconds after its last update.

    It is normal as long as the next update is not overdue. `period_s` is the time between two
    updates (`CounterReading.period_s`).
    """
    return age_s < settling_s(period_s)


def bytes_between(earlier: CounterReading | None, later: CounterReading | None) -> int | None:
    """Return the bytes counted from one reading to the next.

    None if a reading is missing, or if the counter stopped or was set back. Raises ValueError for
    readings of different counters.
    """
    if earlier is None or later is None:
        return None
    if earlier.name != later.name:
        raise ValueError(f"{earlier.name} and {later.name} are different counters")
    earlier_b, later_b = earlier.bytes_b, later.bytes_b
    if earlier_b is None or later_b is None or later_b < earlier_b:
        return None
    return later_b - earlier_b
