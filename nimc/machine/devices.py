"""RDMA devices of this host, read from sysfs."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nimc.base.kernel_text import number
from nimc.base.kernel_text import read as _text

SYS = Path("/sys")
#: Folders of devices: those with verbs, and Slingshot's.
_CLASSES = ("infiniband", "cxi")
#: Kernel driver -> transport. That of other devices is the link layer of their ports.
_TRANSPORTS = {"hfi1": "Omni-Path", "efa": "EFA"}
#: Variable -> its value, for MPI over one RDMA device. Each library reads its own: UCX; PSM2 of
#: Omni-Path, and PSM of TrueScale; verbs in Open MPI, libfabric and MVAPICH2.
_MPI_OVER_DEVICE = {
    "UCX_NET_DEVICES": "{name}",
    "HFI_UNIT": "{unit}",
    "PSM2_MULTIRAIL": "0",
    "IPATH_UNIT": "{unit}",
    "OMPI_MCA_btl_openib_if_include": "{device}:1",
    "FI_VERBS_DEVICE_NAME": "{device}",
    "MV2_IBA_HCA": "{device}",
}
#: The same over an interface: UCX, libfabric's tcp, Open MPI's.
_MPI_OVER_INTERFACE = {
    "UCX_NET_DEVICES": "{name}",
    "FI_TCP_IFACE": "{name}",
    "OMPI_MCA_btl_tcp_if_include": "{name}",
}
_UNIT = re.compile(r"[0-9]+$")
_RATE = re.compile(r"[0-9]{1,6}(\.[0-9]+)?(?= Gb/sec)")


@dataclass(frozen=True)
class Port:
    """One port of an RDMA device."""

    #: Number on the device.
    number: int
    #: `ACTIVE`, `DOWN`, ...
    state: str
    #: `InfiniBand` or `Ethernet`.
    link_layer: str
    #: Link rate, bytes per second; None if unknown.
    rate_b_s: float | None


@dataclass(frozen=True)
class Device:
    """One RDMA device."""

    #: As the kernel names it.
    name: str
    #: Transport: `InfiniBand`, `RoCE`, `Omni-Path`, `EFA`, `Slingshot`, or `soft-RoCE`, where the
    #: CPU does the work.
    transport: str
    #: Its firmware; None if unknown.
    firmware: str | None
    #: NUMA node that it is attached to; None if the host has only one, or it is not hardware.
    numa_node: int | None
    #: Its ports.
    ports: list[Port]


def detect(root: Path = SYS) -> list[Device]:
    """All RDMA devices, sorted by name; then those of Slingshot, whose ports are not known."""
    folders = (root / "class" / each for each in _CLASSES)
    return [_device(path) for folder in folders for path in sorted(folder.glob("*"))]


def is_rdma(name: str | None, root: Path = SYS) -> bool:
    """Whether there is an RDMA device of that name; false for network interfaces."""
    return name is not None and any((root / "class" / each / name).exists() for each in _CLASSES)


def transport(name: str | None, root: Path = SYS) -> str:
    """Transport of the device of that name (None: the first); `RDMA` if this host lacks it."""
    return next((each.transport for each in detect(root) if name in (None, each.name)), "RDMA")


def numa_node(name: str | None, found: list[Device]) -> int | None:
    """NUMA node of the device of that name (None: the first); None if unknown."""
    return next((each.numa_node for each in found if name in (None, each.name)), None)


def interface_of(name: str, root: Path = SYS) -> str:
    """The network interface below a soft-RoCE device; any other name is returned as it is."""
    return _text(root / "class/infiniband" / name / "parent") or name


def mpi_over(device: str, name: str | None = None, root: Path = SYS) -> dict[str, str]:
    """Variables for MPI over one device; `name` is UCX's: that of an interface, or `DEVICE:1`.

    By default soft-RoCE is passed by: MPI goes over tcp, through the interface below.
    """
    if name is None:
        below = interface_of(device, root)
        name = f"{device}:1" if below == device and is_rdma(device, root) else below
    table = _MPI_OVER_DEVICE if ":" in name else _MPI_OVER_INTERFACE
    unit = _UNIT.search(device)
    values = {"name": name, "device": device, "unit": unit[0] if unit else "0"}
    return {variable: text.format(**values) for variable, text in table.items()}


def driver(name: str, root: Path = SYS) -> str:
    """The kernel driver of an RDMA device, such as `mlx5_core`; empty if it has none."""
    with suppress(OSError):
        return (root / "class/infiniband" / name / "device/driver").readlink().name
    return ""


def _device(path: Path) -> Device:
    ports = []
    for port in sorted((path / "ports").glob("[0-9]*")):
        # `4: ACTIVE`, and `100 Gb/sec (4X EDR)` where Gb is 10^9 bits.
        state = _text(port / "state").rpartition(":")[2].strip() or "unknown"
        rate = _RATE.match(_text(port / "rate"))
        rate_b_s = float(rate[0]) * 1e9 / 8 if rate else None
        layer = _text(port / "link_layer") or "unknown"
        ports.append(Port(int(port.name), state, layer, rate_b_s))
    if path.parent.name == "cxi":
        kind = "Slingshot"
    elif _text(path / "parent"):
        kind = "soft-RoCE"
    elif (found := driver(path.name, path.parents[2])) in _TRANSPORTS:
        kind = _TRANSPORTS[found]
    else:
        kind = "RoCE" if any(port.link_layer == "Ethernet" for port in ports) else "InfiniBand"
    node = number(_text(path / "device/numa_node"))
    return Device(
        name=path.name,
        transport=kind,
        firmware=_text(path / "fw_ver") or None,
        numa_node=node if node is not None and node >= 0 else None,
        ports=ports,
    )
