"""RDMA devices of this host, read from sysfs.

A site file names a device as the kernel does (`mlx5_0`), or by its PCI address (`0000:0c:00.0`),
which is the same on nodes whose kernels name it otherwise; both with `:PORT` for another port than
the first. Other names are network interfaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from records.kernel_text import numa_node_of
from records.kernel_text import read as _text

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
    "OMPI_MCA_btl_openib_if_include": "{device}:{port}",
    "FI_VERBS_DEVICE_NAME": "{device}",
    "MV2_IBA_HCA": "{device}",
    "MV2_DEFAULT_PORT": "{port}",
}
#: The same over an interface: UCX, libfabric's tcp, Open MPI's.
_MPI_OVER_INTERFACE = {
    "UCX_NET_DEVICES": "{name}",
    "FI_TCP_IFACE": "{name}",
    "OMPI_MCA_btl_tcp_if_include": "{name}",
}
_UNIT = re.compile(r"[0-9]+$")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_WITH_PORT = re.compile(r"(.+):([0-9]{1,3})")
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
    #: PCI address, such as `0000:0c:00.0`; None if it has none.
    pci: str | None = None

    def port(self, number: int) -> Port | None:
        """The port of that number; None if there is none, or ports are not known."""
        return next((port for port in self.ports if port.number == number), None)


class Chosen(NamedTuple):
    """A device that a site file names, and which of its ports."""

    #: As the kernel of this host names it, or as it is written, if this host does not have it.
    name: str
    port: int

    def __str__(self) -> str:
        """As UCX names it."""
        return f"{self.name}:{self.port}"


def split(wanted: str) -> Chosen:
    """The parts of `DEVICE` or `DEVICE:PORT`; the first port without one."""
    match = None if _PCI.fullmatch(wanted) else _WITH_PORT.fullmatch(wanted)
    return Chosen(match[1], int(match[2])) if match else Chosen(wanted, 1)


def has_address(wanted: str) -> bool:
    """Whether a device is named by its PCI address."""
    return _PCI.fullmatch(split(wanted).name) is not None


def chosen(wanted: str, root: Path = SYS) -> Chosen:
    """The device of this host that is meant; a network interface is returned as it is."""
    name, port = split(wanted)
    if _PCI.fullmatch(name):
        paths = (path for folder in _CLASSES for path in (root / "class" / folder).glob("*"))
        return Chosen(next((path.name for path in paths if _address(path) == name), name), port)
    there = any((root / "class" / folder / name).exists() for folder in _CLASSES)
    return Chosen(name, port) if there else Chosen(wanted, 1)


def _address(path: Path) -> str | None:
    with suppress(OSError):
        address = (path / "device").readlink().name
        return address if _PCI.fullmatch(address) else None
    return None


def detect(root: Path = SYS) -> list[Device]:
    """All RDMA devices, sorted by name; then those of Slingshot, whose ports are not known."""
    folders = (root / "class" / name for name in _CLASSES)
    return [_device(path) for folder in folders for path in sorted(folder.glob("*"))]


def is_rdma(name: str | None, root: Path = SYS) -> bool:
    """Whether there is such an RDMA device; false for network interfaces."""
    if name is None:
        return False
    device = chosen(name, root).name
    return any((root / "class" / folder / device).exists() for folder in _CLASSES)


def transport(name: str | None, root: Path = SYS) -> str:
    """Transport of a device (None: the first); `RDMA` if this host lacks it."""
    device = name and chosen(name, root).name
    return next((here.transport for here in detect(root) if device in (None, here.name)), "RDMA")


def named(wanted: str, devices: Sequence[Device]) -> Device | None:
    """The device that is meant, of those of a host."""
    name = split(wanted).name
    return next((device for device in devices if name in (device.name, device.pci)), None)


def numa_node(name: str | None, devices: Sequence[Device]) -> int | None:
    """NUMA node of a device (None: the first); None if unknown."""
    device = next(iter(devices), None) if name is None else named(name, devices)
    return device.numa_node if device else None


def interface_of(name: str, root: Path = SYS) -> str:
    """The network interface below a soft-RoCE device; any other name is returned as it is."""
    return _text(root / "class/infiniband" / chosen(name, root).name / "parent") or name


def mpi_over(device: str, name: str | None = None, root: Path = SYS) -> dict[str, str]:
    """Variables for MPI over one device; `name` is UCX's: that of an interface, or `DEVICE:PORT`.

    By default soft-RoCE is passed by: MPI goes over tcp, through the interface below.
    """
    here = split(device) if name else chosen(device, root)
    if name is None:
        below = interface_of(device, root)
        name = str(here) if below == device and is_rdma(device, root) else below
    table = _MPI_OVER_DEVICE if ":" in name else _MPI_OVER_INTERFACE
    unit = _UNIT.search(here.name)
    values = {"name": name, "device": here.name, "port": str(here.port)}
    values["unit"] = unit[0] if unit else "0"
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
    elif (kernel_driver := driver(path.name, path.parents[2])) in _TRANSPORTS:
        kind = _TRANSPORTS[kernel_driver]
    else:
        kind = "RoCE" if any(port.link_layer == "Ethernet" for port in ports) else "InfiniBand"
    return Device(
        name=path.name,
        transport=kind,
        firmware=_text(path / "fw_ver") or None,
        numa_node=numa_node_of(path / "device"),
        ports=ports,
        pci=_address(path),
    )
