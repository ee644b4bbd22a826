"""Facts of nodes that change what a run measures, from its provenance.

Each block's provenance has `nodes`: host name -> facts of that host (`injection.machine.host`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

#: Shown for a fact that no node reports.
UNKNOWN = "unknown"


def _text(key: str) -> Callable[[Mapping[str, Any]], str | None]:
    def read(host: Mapping[str, Any]) -> str | None:
        value = host.get(key)
        return None if value is None else str(value)

    return read


def _nic_firmware(host: Mapping[str, Any]) -> str | None:
    devices = host.get("rdma")
    found = [
        f"{device.get('name')} {device['firmware']}"
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, Mapping) and device.get("firmware")
    ]
    return ", ".join(found) or None


#: Fact -> its text from the facts of a host; None if unknown. `ddio` is never recorded so far: it
#: is readable by root only.
FACTS: dict[str, Callable[[Mapping[str, Any]], str | None]] = {
    "CPU model": _text("cpu_model"),
    "kernel": _text("kernel"),
    "governor": _text("governor"),
    "BIOS": _text("bios"),
    "NIC firmware": _nic_firmware,
    "microcode": _text("microcode"),
    "IOMMU": _text("iommu"),
    "transparent huge pages": _text("transparent_huge_pages"),
    "DDIO": _text("ddio"),
}


def nodes_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Facts of each node in one block's provenance."""
    nodes = record.get("nodes")
    hosts = nodes.values() if isinstance(nodes, Mapping) else []
    return [host for host in hosts if isinstance(host, Mapping)]


def known(hosts: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Fact -> its distinct values over the nodes that report it, sorted; empty if none does."""
    each = list(hosts)
    return {
        name: sorted({text for host in each if (text := read(host)) is not None})
        for name, read in FACTS.items()
    }
