"""Bytes that passed a device, by its own counter; a writer's claim is compared with them.

One table has the files and units of all fabrics. Soft-RoCE counts only packets, so the Ethernet
interface below it is read, which also counts headers and other traffic. Writes over shared memory
pass no device and are not counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from records import kernel_text
from records.machine import devices

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
#: The first row whose file has a number counts. Sources of units and widths: shs-cxi-driver's
#: cass_telem.c and shs-libcxi's cxi_stat.c (56 bits); Linux: infiniband/hw/efa/
#: efa_admin_cmds_defs.h, infiniband/hw/hfi1/mad.c (with opa-ff's stl_pm.h), if_link.h, and
#: ABI/stable/sysfs-class-infiniband.
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

    #: As in the table: `rdma:mlx5_0/1`, `net:eth0`.
    name: str
    #: None: the counter has reached its largest value and stopped.
    bytes_b: int | None


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
                total_b = None if count == row.stops_at else count * row.unit_b
                return Reading(row.name.format(**names), total_b)
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


def difference(earlier: Reading | None, later: Reading | None) -> int | None:
    """Bytes counted from one reading to the next.

    None if unknown: one is missing, or the counter stopped, or was set back. Raises ValueError for
    readings of different counters.
    """
    if earlier is None or later is None:
        return None
    if earlier.name != later.name:
        raise ValueError(f"{earlier.name} and {later.name} are different counters")
    first_b, last_b = earlier.bytes_b, later.bytes_b
    return None if first_b is None or last_b is None or last_b < first_b else last_b - first_b
