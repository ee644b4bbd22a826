"""Bytes that a device has received and sent, by its own counter.

They are compared with a writer's claim. `records.machine.fabrics` has the files and units.
Soft-RoCE counts only packets. So the Ethernet interface below it is read, which also counts headers
and other traffic. Writes over shared memory pass no device and are not counted.
"""

from __future__ import annotations

import re
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


#: The time that Slingshot's driver prints after a number.
_TIME = re.compile(r"@[0-9]{1,20}\.[0-9]{9}$")


@dataclass(frozen=True)
class CounterReading:
    """One reading of a byte counter."""

    #: Named as in the table of fabrics: `rdma:mlx5_0/1`, `net:eth0`.
    name: str
    #: None: the counter has reached its largest value and stopped.
    bytes_b: int | None


def read(
    device: str | None, direction: TrafficDirection, root: Path = Path("/")
) -> CounterReading | None:
    """Return the bytes that a device or a network interface has received or sent so far.

    None if there is no such device, or it has no counter. Of several counters of its fabric, the
    first whose files all have numbers is read.
    """
    if device is None:
        return None
    names = _names(device, root)
    for row in _rows(device, root):
        files = row.received if direction == "received" else row.sent
        counts = [_number(root, file.format(**names), names["interface"]) for file in files]
        numbers = [count for count in counts if count is not None]
        if len(numbers) == len(counts):
            total_b = None if row.stops_at in numbers else sum(numbers) * row.unit_b
            return CounterReading(row.name.format(**names), total_b)
    return None


def read_one_sided(device: str, direction: TrafficDirection, root: Path = Path("/")) -> int | None:
    """Return the bytes of RDMA writes received by a device, or of RDMA reads that it answered.

    None if it does not count them, or if all writes over its fabric are one-sided, or none.
    """
    fabric = devices.fabric(device, root / "sys")
    counter = fabric.one_sided_counter if fabric else None
    if counter is None:
        return None
    file = counter.received if direction == "received" else counter.sent
    return _number(root, file.format(**_names(device, root)), "")


def why_no_count(device: str, root: Path = Path("/")) -> str:
    """Return why no bytes received by a device are counted: what its counters' files contain."""
    names = _names(device, root)
    contents: list[str] = []
    for row in _rows(device, root):
        for file in row.received:
            path = root / file.partition("#")[0].format(**names)
            try:
                content = path.read_text(errors="replace").strip() if "#" not in file else ""
            except FileNotFoundError:
                content = "missing"
            except OSError as error:
                content = error.strerror or str(error)
            if _number(root, file.format(**names), names["interface"]) is None:
                shown = f"no {names['interface']}" if "#" in file else one_line(content) or "empty"
                contents.append(f"{path.parent.name}/{path.name}: {shown}")
    return "; ".join(dict.fromkeys(contents)) or "its fabric is not known"


def _rows(device: str, root: Path) -> list[Counter]:
    """Return the counters of the fabric that may count a device's bytes."""
    folder = devices.folder_of(devices.resolve(device, root / "sys").name, root / "sys")
    if folder is None:
        return list(FABRICS["tcp"].counters)
    fabric, driver = devices.fabric_of(folder), devices.driver(folder)
    rows = fabric.counters if fabric else ()
    return [row for row in rows if not row.drivers or driver in row.drivers]


def _names(device: str, root: Path) -> dict[str, str]:
    device_port = devices.resolve(device, root / "sys")
    interface = devices.interface_of(device, root / "sys")
    return {"device": device_port.name, "port": str(device_port.port), "interface": interface}


def _number(root: Path, location: str, interface: str) -> int | None:
    """Return the number in `FILE`, or of `FILE#COLUMN` in that column of the interface's line."""
    name, _, column = location.partition("#")
    text = kernel_text.read(root / name)
    if not column:
        return kernel_text.number(_TIME.sub("", text))
    for line in text.splitlines():
        key, _, values = line.partition(":")
        if key.strip() == interface:
            words = values.split()
            return kernel_text.number(words[int(column)]) if int(column) < len(words) else None
    return None


def bytes_between(earlier: CounterReading | None, later: CounterReading | None) -> int | None:
    """Return the bytes counted from one reading to the next.

    None if a reading is missing, or the counter stopped or was set back. Raises ValueError for
    readings of different counters.
    """
    if earlier is None or later is None:
        return None
    if earlier.name != later.name:
        raise ValueError(f"{earlier.name} and {later.name} are different counters")
    first_b, last_b = earlier.bytes_b, later.bytes_b
    if first_b is None or last_b is None or last_b < first_b:
        return None
    return last_b - first_b
