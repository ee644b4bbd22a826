"""RDMA devices of this host, read from sysfs.

A site file names a device as the kernel does (`mlx5_0`), or by its PCI address (`0000:0c:00.0`),
which is the same on nodes whose kernels name it otherwise; both with `:PORT` for another port than
the first. Other names are network interfaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from records.kernel_text import numa_node_of, number
from records.kernel_text import read as _text
from records.machine import fabrics
from records.machine.fabrics import Fabric

SYS = Path("/sys")
#: Folders of devices: those with verbs, and Slingshot's.
_CLASSES = ("infiniband", "cxi")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_WITH_PORT = re.compile(r"(.+):([0-9]{1,3})")
_RATE = re.compile(r"[0-9]{1,6}(\.[0-9]+)?(?= Gb/sec)")
#: `BS_200G` of Slingshot, in Gbit/s.
_CXI_RATE = re.compile(r"[A-Z]{2}_([0-9]{1,4})G")
#: IPv4 address in a GID, and a link's own address of IPv6.
_IPV4, _LINK_LOCAL = "0000:0000:0000:0000:0000:ffff:", "fe80:"


@dataclass(frozen=True)
class Port:
    """One port of an RDMA device."""

    #: Number on the device.
    number: int
    #: `ACTIVE`, `DOWN`, ...
    state: str
    #: `InfiniBand`, `Ethernet`, or the fabric of a port that has no link layer.
    link_layer: str
    #: Link rate, bytes per second, of a bonded device that of all its ports; None if unknown.
    rate_b_s: float | None

    @property
    def is_active(self) -> bool:
        """Return whether its link is up."""
        return self.state == "ACTIVE"


@dataclass(frozen=True, kw_only=True)
class Device:
    """One RDMA device."""

    #: Its name in the kernel.
    name: str
    #: Transport: the name of its fabric (`records.machine.fabrics`).
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

    #: Its name in this host's kernel, or as it is written, if this host does not have it.
    name: str
    port: int

    def __str__(self) -> str:
        """Return the name as UCX has it."""
        return f"{self.name}:{self.port}"


def split(wanted: str) -> Chosen:
    """The parts of `DEVICE` or `DEVICE:PORT`; the first port without one."""
    match = None if _PCI.fullmatch(wanted) else _WITH_PORT.fullmatch(wanted)
    return Chosen(match[1], int(match[2])) if match else Chosen(wanted, 1)


def has_address(wanted: str) -> bool:
    """Return whether a device is named by its PCI address."""
    return _PCI.fullmatch(split(wanted).name) is not None


def chosen(wanted: str, root: Path = SYS) -> Chosen:
    """The device of this host that is meant; a network interface is returned as it is."""
    name, port = split(wanted)
    if _PCI.fullmatch(name):
        paths = (path for folder in _CLASSES for path in (root / "class" / folder).glob("*"))
        return Chosen(next((path.name for path in paths if _address(path) == name), name), port)
    is_present = any((root / "class" / folder / name).exists() for folder in _CLASSES)
    return Chosen(name, port) if is_present else Chosen(wanted, 1)


def _address(path: Path) -> str | None:
    with suppress(OSError):
        address = (path / "device").readlink().name
        return address if _PCI.fullmatch(address) else None
    return None


def detect(root: Path = SYS) -> list[Device]:
    """All RDMA devices, sorted by name; then those of Slingshot."""
    folders = (root / "class" / name for name in _CLASSES)
    return [_device(path) for folder in folders for path in sorted(folder.glob("*"))]


def is_rdma(name: str | None, root: Path = SYS) -> bool:
    """Return whether there is such an RDMA device; false for network interfaces."""
    return name is not None and folder_of(chosen(name, root).name, root) is not None


def folder_of(device: str, root: Path = SYS) -> Path | None:
    """The folder of an RDMA device by the kernel's name; None if this host does not have it."""
    folders = (root / "class" / folder / device for folder in _CLASSES)
    return next((folder for folder in folders if folder.exists()), None)


def fabric(name: str, root: Path = SYS) -> Fabric | None:
    """The fabric of a device or an interface of this host, else the one that its name tells."""
    device = chosen(name, root).name
    if folder := folder_of(device, root):
        return fabric_of(folder)
    if (root / "class/net" / device).exists():
        return fabrics.FABRICS["tcp"]
    return fabrics.by_name(device)


def fabric_of(path: Path) -> Fabric | None:
    """The fabric of the device with this folder."""
    layers = {_text(layer) for layer in path.glob("ports/[0-9]*/link_layer")}
    about = path.name, path.parent.name, driver(path), _text(path / "node_type"), layers
    parent = bool(_text(path / "parent"))
    return next((row for row in fabrics.TABLE if row.fits(*about, parent=parent)), None)


def transport(name: str | None, root: Path = SYS) -> str:
    """Transport of a device (None: the first); `RDMA` if this host lacks it."""
    device = name and chosen(name, root).name
    return next((other.transport for other in detect(root) if device in (None, other.name)), "RDMA")


def named(wanted: str, devices: Sequence[Device]) -> Device | None:
    """The device that is meant, of those of a host."""
    name = split(wanted).name
    return next((device for device in devices if name in (device.name, device.pci)), None)


def numa_node(name: str | None, devices: Sequence[Device]) -> int | None:
    """NUMA node of a device (None: the first); None if unknown."""
    device = next(iter(devices), None) if name is None else named(name, devices)
    return device.numa_node if device else None


def interface_of(name: str, root: Path = SYS) -> str:
    """The interface that shares a device's port; any other name is returned as it is."""
    device_port = chosen(name, root)
    if below := _below(device_port.name, root):
        return below
    interfaces = sorted((root / "class/infiniband" / device_port.name).glob("device/net/*"))
    ports = {_text(interface / "dev_port"): interface.name for interface in interfaces}
    return (
        interfaces[0].name if len(interfaces) == 1 else ports.get(str(device_port.port - 1), name)
    )


def _below(device: str, root: Path) -> str:
    """The interface below a soft-RoCE device; empty for any other."""
    return _text(root / "class/infiniband" / device / "parent")


def mpi_over(device: str, name: str | None = None, root: Path = SYS) -> dict[str, str]:
    """Variables for MPI over one device; `name` is UCX's: that of an interface, or `DEVICE:PORT`.

    By default soft-RoCE is passed by: MPI goes over tcp, through the interface below. Raises
    ValueError if no variable chooses the device.
    """
    device_port = split(device) if name else chosen(device, root)
    if name is None:
        below = _below(device_port.name, root)
        name = str(device_port) if not below and is_rdma(device, root) else below or device
    return mpi_over_all(
        {str(device_port) if device_port.port != 1 else device_port.name: name}, root
    )


def mpi_over_all(devices: Mapping[str, str], root: Path = SYS) -> dict[str, str]:
    """The same over several devices of one fabric: device -> what UCX calls it."""
    (device, name), *_ = devices.items()
    device_fabric = fabric(device, root) or fabrics.FABRICS["InfiniBand"]
    # A device in UCX may be an interface.
    row = device_fabric if ":" in name else fabrics.FABRICS["tcp"]
    return row.variables(devices)


def gid_index(
    wanted: str, interface: str | None = None, root: Path = SYS, *, ipv4: bool = True
) -> int | None:
    """Index of the GID of RoCE v2 that fits the address of the port's interface; None without one.

    A port has a GID for each address of its interface, and of those on top of it: `interface` is
    the one that is preferred. IPv4 goes first, unless it is excluded, then a global address of
    IPv6.
    """
    name, port = chosen(wanted, root)
    path = root / f"class/infiniband/{name}/ports/{port}"
    candidates = []
    for file in path.glob("gid_attrs/types/[0-9]*"):
        if _text(file) == "RoCE v2":
            gid = _text(path / "gids" / file.name)
            if gid.startswith(_IPV4) and not ipv4:
                continue
            is_other = _text(path / "gid_attrs/ndevs" / file.name) != interface
            is_late = gid.startswith(_LINK_LOCAL), not gid.startswith(_IPV4)
            candidates.append((is_other, *is_late, int(file.name)))
    return min(candidates)[-1] if candidates else None


def driver(device: Path) -> str:
    """The kernel driver of the device with this folder, such as `mlx5_core`; empty if none."""
    with suppress(OSError):
        return (device / "device/driver").readlink().name
    return ""


def _device(path: Path) -> Device:
    device_fabric = fabric_of(path)
    kind = device_fabric.name if device_fabric else "RDMA"
    return Device(
        name=path.name,
        transport=kind,
        firmware=_text(path / "fw_ver") or None,
        numa_node=numa_node_of(path / "device"),
        ports=_cxi_ports(path, kind) if path.parent.name == "cxi" else _ports(path),
        pci=_address(path),
    )


def _ports(path: Path) -> list[Port]:
    ports = []
    for port in sorted((path / "ports").glob("[0-9]*")):
        # `4: ACTIVE`, and `100 Gb/sec (4X EDR)` where Gb is 10^9 bits.
        state = _text(port / "state").rpartition(":")[2].strip() or "unknown"
        rate = _RATE.match(_text(port / "rate"))
        rate_b_s = float(rate[0]) * 1e9 / 8 if rate else None
        layer = _text(port / "link_layer") or "unknown"
        ports.append(Port(int(port.name), state, layer, _bonded_b_s(port) or rate_b_s))
    return ports


def _bonded_b_s(port: Path) -> float | None:
    """Rate of a bonded port: that of the bond, which is of all ports that can send; else None.

    The device itself reports the rate of one of them.
    """
    net = port.parents[3] / "net"
    for file in sorted(port.glob("gid_attrs/ndevs/[0-9]*")):
        bond = net / (_text(file) or "none")
        if (bond / "bonding").exists() and (mbit_s := number(_text(bond / "speed")) or 0) > 0:
            return mbit_s * 1e6 / 8
    return None


def _cxi_ports(path: Path, layer: str) -> list[Port]:
    """The one port of a device without verbs; empty if its driver does not tell."""
    about = path / "device/properties"
    state = _text(about / "link_state")
    rate = _CXI_RATE.fullmatch(_text(about / "speed"))
    rate_b_s = float(rate[1]) * 1e9 / 8 if rate else None
    shown = "ACTIVE" if state == "up" else state.upper()
    return [Port(1, shown, layer, rate_b_s)] if state else []
