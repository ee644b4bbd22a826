"""RDMA devices of this host, read from sysfs.

A site file names a device as the kernel does (`mlx5_0`), or by its PCI address (`0000:0c:00.0`).
The PCI address is the same on nodes whose kernels give the device different names. `:PORT` after
the name chooses another port than the first. All other names are names of network interfaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from records.kernel_text import numa_node_of, number
from records.kernel_text import read as _read
from records.machine import fabrics
from records.machine.fabrics import Fabric

SYS = Path("/sys")
#: Folders in /sys/class of the devices with verbs, and of Slingshot's devices.
_CLASSES = ("infiniband", "cxi")
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_WITH_PORT = re.compile(r"(.+):([0-9]{1,3})")
_RATE = re.compile(r"[0-9]{1,6}(\.[0-9]+)?(?= Gb/sec)")
_TEXT_AND_NUMBER = re.compile(r"(\D*)([0-9]*)")
#: Usual names of the devices that stand for the planes of an XDR device, at the same PCI address.
#: They carry only management packets (type SMI of `rdma dev`).
_PLANES = re.compile(r"smi.*")
#: The GUID that the kernel shows for a device without a GUID.
_NO_GUID = "0000:0000:0000:0000"
#: Rate of a link of Slingshot, such as `BS_200G`, in Gbit/s.
_CXI_RATE = re.compile(r"[A-Z]{2}_([0-9]{1,4})G")
#: Speed of a lane of PCIe, such as `32.0 GT/s PCIe`; older kernels print `8 GT/s`.
_PCIE_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s")
#: Speed of a lane of PCIe, GT/s -> the share of packets in the bits that lanes of this speed send,
#: up to the next speed in the table. The slowest send 10 bits for 8 bits of packets. From 8 GT/s,
#: 130 bits carry 128. From 64 GT/s, flits of 256 bytes have 236 bytes of transaction packets, 6 of
#: the data link layer, and 14 of checksums and error correction (PCI Express Base Specification,
#: revision 6.0).
_PACKET_SHARES = {0.0: 8 / 10, 8.0: 128 / 130, 64.0: 242 / 256}
#: Largest number of lanes of a PCIe link. A larger number in sysfs means that it is unknown.
_MOST_LANES = 32
#: Beginnings of the GIDs of IPv4 addresses, and of link-local IPv6 addresses.
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
    #: Link rate, bytes per second; for a bonded device, the rate of all its ports together. None if
    #: unknown.
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
    #: NUMA node that it is attached to; None if the host has only one, or if the device is not
    #: hardware.
    numa_node: int | None
    #: Its ports.
    ports: list[Port]
    #: PCI address, such as `0000:0c:00.0`; None if it has none.
    pci: str | None = None

    def port(self, number: int) -> Port | None:
        """The port with a number; None if the device has no such port, or its ports are unknown."""
        return next((port for port in self.ports if port.number == number), None)


class DevicePort(NamedTuple):
    """A device that a site file names, and the number of one of its ports."""

    #: The device's name in this host's kernel; if this host lacks the device, its name in the site
    #: file.
    name: str
    port: int

    def __str__(self) -> str:
        """Return the name as UCX writes it."""
        return f"{self.name}:{self.port}"


def parse_name(name: str) -> DevicePort:
    """Return the parts of `DEVICE` or `DEVICE:PORT`; the default is port 1."""
    match = _WITH_PORT.fullmatch(name)  # a PCI address does not end in `:` and digits
    return DevicePort(match[1], int(match[2])) if match else DevicePort(name, 1)


def is_pci_address(name: str) -> bool:
    """Return whether a device is named by its PCI address."""
    return _PCI_ADDRESS.fullmatch(parse_name(name).name) is not None


def resolve(name: str, root: Path = SYS) -> DevicePort:
    """Return the device of this host that a site file names, and the port.

    The name of a network interface is returned unchanged, with port 1.
    """
    device, port = parse_name(name)
    if _PCI_ADDRESS.fullmatch(device):
        for path in _folders(root):
            if _pci_address(path) == device:
                return DevicePort(path.name, port)
        return DevicePort(device, port)
    return DevicePort(device, port) if folder_of(device, root) else DevicePort(name, 1)


def _pci_address(path: Path) -> str | None:
    address = _link_name(path / "device")
    return address if _PCI_ADDRESS.fullmatch(address) else None


def _link_name(link: Path) -> str:
    """Return the last part of the path to which a link leads; empty if there is no such link."""
    with suppress(OSError):
        return link.readlink().name
    return ""


def detect(root: Path = SYS) -> list[Device]:
    """Return the devices with verbs, sorted by name; then the devices of Slingshot, sorted too.

    Numbers in names are sorted by their value: mlx5_10 comes after mlx5_9.
    """
    return [_device(path) for path in _folders(root)]


def _folders(root: Path) -> list[Path]:
    """Return the folders of all devices that carry data, in the order of `detect`."""
    folders = (root / "class" / name for name in _CLASSES)
    paths = [path for folder in folders for path in sorted(folder.glob("*"), key=_natural_key)]
    return [path for path in paths if not _PLANES.fullmatch(path.name)]


def shared_ports(root: Path = SYS) -> dict[str, str]:
    """Return device -> the first device at the same physical port.

    A device that is itself the first one at its port is left out. A card with Socket Direct has two
    PCI addresses, and a device at each, for the same port. All devices of an mlx5 card have the
    same `sys_image_guid`. Devices of different ports have interfaces with different
    `phys_port_name`. If there are no such names, devices with the same function number on two buses
    share a port. Devices in two slots of one bus do not count as sharing, since a virtual machine
    places unrelated devices so.

    A virtual function has the port of its physical function, if this host has both.
    """
    sharers: dict[str, str] = {}
    first_paths: dict[tuple[str, str], Path] = {}
    by_address = {_pci_address(path): path.name for path in _folders(root)}
    for path in _folders(root):
        physical_function = by_address.get(_link_name(path / "device/physfn"))
        if physical_function:
            sharers[path.name] = physical_function
            continue
        card = _read(path / "sys_image_guid")
        if driver(path) != "mlx5_core" or card in ("", _NO_GUID):
            continue
        port_names = {_read(file) for file in path.glob("device/net/*/phys_port_name")} - {""}
        has_name = len(port_names) == 1
        bus, function = _bus_and_function(path)
        port = port_names.pop() if has_name else function
        first_path = first_paths.setdefault((card, port), path)
        if first_path != path and (has_name or bus != _bus_and_function(first_path)[0]):
            sharers[path.name] = first_path.name
    return sharers


def _bus_and_function(path: Path) -> tuple[str, str]:
    """Return the bus and the number of the function in a device's PCI address."""
    slot, _, function = (_pci_address(path) or "").rpartition(".")
    return slot.rpartition(":")[0], function


def _natural_key(path: Path) -> list[tuple[str, int]]:
    """Return the key that sorts devices by the numbers in their names: mlx5_9 before mlx5_10.

    Capital letters do not count: roceP2p1s0, which has a PCI domain, comes after rocep1s0.
    """
    return [
        (text.lower(), int(digits or 0)) for text, digits in _TEXT_AND_NUMBER.findall(path.name)
    ]


def is_rdma(name: str | None, root: Path = SYS) -> bool:
    """Return whether this host has an RDMA device of that name; false for network interfaces."""
    return name is not None and folder_of(resolve(name, root).name, root) is not None


def folder_of(device: str, root: Path = SYS) -> Path | None:
    """Return the folder of the RDMA device with a kernel name; None if this host lacks it."""
    folders = (root / "class" / folder / device for folder in _CLASSES)
    return next((folder for folder in folders if folder.exists()), None)


def fabric(name: str, root: Path = SYS) -> Fabric | None:
    """Return the fabric of a device or an interface; if this host lacks it, its name decides."""
    device = resolve(name, root).name
    if folder := folder_of(device, root):
        return fabric_of(folder)
    if (root / "class/net" / device).exists():
        return fabrics.FABRICS["tcp"]
    return fabrics.by_name(device)


def fabric_of(path: Path) -> Fabric | None:
    """Return the fabric of the device with this folder; None if it is none of `FABRICS`."""
    device_driver, node_type = driver(path), _read(path / "node_type")
    link_layers = _link_layers(path)
    has_parent = bool(_read(path / "parent"))
    for fabric in fabrics.FABRICS.values():
        if fabric.fits(
            path.name,
            path.parent.name,
            device_driver,
            node_type,
            link_layers,
            has_parent=has_parent,
        ):
            return fabric
    return None


def _link_layers(path: Path) -> set[str]:
    """Return the link layers of a device's active ports, or of all ports if no port is active.

    Each port of an adapter such as ConnectX-3 has a link layer of its own.
    """
    ports = list(path.glob("ports/[0-9]*"))
    active_ports = [port for port in ports if _port_state(port) == "ACTIVE"]
    return {_read(port / "link_layer") for port in active_ports or ports}


def transport(name: str | None, root: Path = SYS) -> str:
    """Return the transport of a device (None: the first); `RDMA` if this host lacks it."""
    kernel_name = name and resolve(name, root).name
    for device in detect(root):
        if kernel_name in (None, device.name):
            return device.transport
    return "RDMA"


def find(name: str, devices: Sequence[Device]) -> Device | None:
    """Return the device that a site file names, with or without a port; None if it is missing."""
    wanted = parse_name(name).name
    return next((device for device in devices if wanted in (device.name, device.pci)), None)


def numa_node(name: str | None, devices: Sequence[Device]) -> int | None:
    """Return the NUMA node of the device with a name (None: the first); None if unknown."""
    device = next(iter(devices), None) if name is None else find(name, devices)
    return device.numa_node if device else None


def interface_of(name: str, root: Path = SYS) -> str:
    """Return the interface that shares a device's port; `name` itself if there is none.

    Of several interfaces of one port, it is the first: `ib0`, and not `ib0.8001` of a partition.
    """
    device_port = resolve(name, root)
    if parent := _parent_interface(device_port.name, root):
        return parent
    interfaces = sorted((root / "class/infiniband" / device_port.name).glob("device/net/*"))
    if len(interfaces) == 1:
        return interfaces[0].name
    by_port: dict[str, str] = {}
    for interface in interfaces:
        by_port.setdefault(_read(interface / "dev_port"), interface.name)
    return by_port.get(str(device_port.port - 1), name)


def _parent_interface(device: str, root: Path) -> str:
    """Return the interface below a soft-RoCE device; empty for any other device."""
    return _read(root / "class/infiniband" / device / "parent")


def ucx_name(device: str, root: Path = SYS) -> str:
    """Return UCX's name of a device: `DEVICE:PORT`, or the name of a network interface.

    If this host lacks the device, it is taken for an RDMA device.
    """
    is_interface = not is_rdma(device, root) and (root / "class/net" / device).exists()
    return device if is_interface else str(parse_name(device))


def mpi_variables(device: str, root: Path = SYS) -> dict[str, str]:
    """Return the environment variables for MPI over one device.

    In place of a soft-RoCE device, MPI uses tcp over its parent interface. Raises ValueError if no
    variable chooses the device.
    """
    device_port = resolve(device, root)
    own_name = str(device_port) if is_rdma(device, root) else device
    mpi_name = _parent_interface(device_port.name, root) or own_name
    name = device_port.name if device_port.port == 1 else str(device_port)
    return mpi_variables_of_all({name: mpi_name}, root)


def mpi_variables_of_all(ucx_names: Mapping[str, str], root: Path = SYS) -> dict[str, str]:
    """Return the environment variables for MPI over devices of one fabric.

    `ucx_names` is device -> UCX's name. Raises ValueError if no variable chooses the devices.
    """
    device, ucx_name = next(iter(ucx_names.items()))
    device_fabric = fabric(device, root) or fabrics.FABRICS["InfiniBand"]
    # UCX's name of an interface has no port.
    mpi_fabric = device_fabric if ":" in ucx_name else fabrics.FABRICS["tcp"]
    return mpi_fabric.variables(ucx_names)


def gid_index(
    name: str, interface: str | None = None, root: Path = SYS, *, ipv4: bool = True
) -> int | None:
    """Return the index of a port's preferred GID of RoCE v2; None if it has none.

    A port has a GID for each address of its interface, and of the interfaces on top of it. The GIDs
    of `interface` are preferred; among these, GIDs of IPv4 addresses (unless `ipv4` excludes them),
    then GIDs of global IPv6 addresses.
    """
    device, port = resolve(name, root)
    path = root / f"class/infiniband/{device}/ports/{port}"
    candidates = []
    for file in path.glob("gid_attrs/types/[0-9]*"):
        if _read(file) != "RoCE v2":
            continue
        gid = _read(path / "gids" / file.name)
        is_ipv4 = gid.startswith(_IPV4)
        if ipv4 or not is_ipv4:
            is_of_another = _read(path / "gid_attrs/ndevs" / file.name) != interface
            is_link_local = gid.startswith(_LINK_LOCAL)
            candidates.append((is_of_another, is_link_local, not is_ipv4, int(file.name)))
    return min(candidates)[-1] if candidates else None


def driver(folder: Path) -> str:
    """Return the driver of the device with this folder, such as `mlx5_core`; empty if none."""
    return _link_name(folder / "device/driver")


def _device(path: Path) -> Device:
    device_fabric = fabric_of(path)
    transport_name = device_fabric.name if device_fabric else "RDMA"
    if path.parent.name == "cxi":
        ports = _cxi_ports(path, transport_name)
    else:
        ports = _ports(path, device_fabric.placeholder_rate if device_fabric else "")
    return Device(
        name=path.name,
        transport=transport_name,
        firmware=_read(path / "fw_ver") or None,
        numa_node=numa_node_of(path / "device"),
        ports=ports,
        pci=_pci_address(path),
    )


def _ports(path: Path, placeholder_rate: str) -> list[Port]:
    """Return the ports of a device with verbs. A rate that reads `placeholder_rate` is unknown."""
    ports = []
    for port in sorted((path / "ports").glob("[0-9]*")):
        state = _port_state(port)
        # `100 Gb/sec (4X EDR)`, where Gb is 10^9 bits.
        rate_text = _read(port / "rate")
        rate = None if rate_text == placeholder_rate else _RATE.match(rate_text)
        rate_b_s = float(rate[0]) * 1e9 / 8 if rate else None
        layer = _read(port / "link_layer") or "unknown"
        ports.append(Port(int(port.name), state, layer, _bond_rate_b_s(port) or rate_b_s))
    return ports


def _port_state(port: Path) -> str:
    """Return the state of the port with this folder: `ACTIVE` if the file has `4: ACTIVE`."""
    return _read(port / "state").rpartition(":")[2].strip() or "unknown"


def _bond_rate_b_s(port: Path) -> float | None:
    """Rate of the bond that a port belongs to, bytes per second; None if there is none.

    A bond's rate is the rate of all its ports together that can send. The device reports the rate
    of one port. If the hardware joins the links of a bond, one device stands for the bond. If
    several devices belong to a bond, each has its own rate, and None is returned.
    """
    infiniband = port.parents[2]  # the port is `infiniband/DEVICE/ports/NUMBER`
    net = infiniband.with_name("net")
    for file in sorted(port.glob("gid_attrs/ndevs/[0-9]*")):
        interface = _read(file)
        if interface and (net / interface / "bonding").exists():
            if len(_devices_of_interface(infiniband, interface)) > 1:
                return None
            mbit_s = number(_read(net / interface / "speed"))
            if mbit_s is not None and mbit_s > 0:
                return mbit_s * 1e6 / 8
    return None


def _devices_of_interface(infiniband: Path, interface: str) -> set[str]:
    """Return the names of the devices that have a GID of an interface."""
    files = infiniband.glob("*/ports/[0-9]*/gid_attrs/ndevs/[0-9]*")
    return {file.parents[4].name for file in files if _read(file) == interface}


def pcie_b_s(device: str, root: Path = SYS) -> float | None:
    """Return the rate of the slowest PCIe link to a device in one direction, bytes per second.

    Headers of packets are included. None if no link shows its speed, as in most virtual machines.
    """
    folder = folder_of(device, root)
    if folder is None:
        return None
    path = (folder / "device").resolve()
    rates_b_s = [_link_b_s(link_folder) for link_folder in (path, *path.parents)]
    return min(filter(None, rates_b_s), default=None)


def _link_b_s(path: Path) -> float | None:
    """Return the rate of the PCIe link of a device or bridge, bytes per second; None if unknown."""
    speed = _PCIE_SPEED.match(_read(path / "current_link_speed"))
    lanes = number(_read(path / "current_link_width"))
    if speed is None or lanes is None or not 1 <= lanes <= _MOST_LANES:
        return None
    gt_s = float(speed[1])
    table_gt_s = max(speed_gt_s for speed_gt_s in _PACKET_SHARES if speed_gt_s <= gt_s)
    return lanes * gt_s * 1e9 / 8 * _PACKET_SHARES[table_gt_s]


def _cxi_ports(path: Path, layer: str) -> list[Port]:
    """Return the one port of a device of Slingshot; empty if its driver shows no state."""
    properties = path / "device/properties"
    state = _read(properties / "link_state")
    if not state:
        return []
    rate = _CXI_RATE.fullmatch(_read(properties / "speed"))
    rate_b_s = float(rate[1]) * 1e9 / 8 if rate else None
    return [Port(1, "ACTIVE" if state == "up" else state.upper(), layer, rate_b_s)]
