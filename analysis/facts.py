"""Facts of nodes that change what a run measures, from its provenance.

Each block's provenance has `nodes`: host name -> facts of that host (`injection.machine.host`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Shown for a fact that no node reports.
UNKNOWN = "unknown"


#: Fact -> its key among a host's facts. Only root can read `ddio` and `prefetchers`.
FACTS = {
    "CPU model": "cpu_model",
    "kernel": "kernel",
    "governor": "governor",
    "BIOS": "bios",
    "NIC firmware": "rdma",
    "microcode": "microcode",
    "IOMMU": "iommu",
    "transparent huge pages": "transparent_huge_pages",
    "DDIO": "ddio",
    "hardware prefetchers": "prefetchers",
    "resctrl schemata": "resctrl",
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
        name: sorted({text for host in each if (text := _text(key, host.get(key))) is not None})
        for name, key in FACTS.items()
    }


def _text(key: str, value: Any) -> str | None:
    if key != "rdma":
        return None if value is None else str(value)
    listed = value if isinstance(value, list) else []
    devices = [each for each in listed if isinstance(each, Mapping)]
    found = [f"{each.get('name')} {each['firmware']}" for each in devices if each.get("firmware")]
    return ", ".join(found) or None
