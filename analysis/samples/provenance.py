"""Provenance of runs: files in `provenance/`, each named by the SHA-256 of its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records.errors import InputError
from records.json_limits import parse_document, read_document, validated
from records.run import NumaFacts

#: Maximum length of a record of provenance, bytes. A node with 256 threads and four network
#: interfaces has some 20 kB of facts, and a block may have 10,000 nodes.
MAX_PROVENANCE_B = 512 << 20


@dataclass(frozen=True)
class Provenance:
    """All provenance records of a run."""

    #: Name of the file (without ending) -> its content.
    records: dict[str, dict[str, Any]]
    #: File whose name is not the SHA-256 of its content -> this SHA-256.
    misnamed_files: dict[Path, str]


def read_provenance(run: Path) -> Provenance:
    """The records of the run in folder `run`. Raises InputError for a record that is invalid."""
    records, misnamed_files = {}, {}
    for path in sorted((run / "provenance").glob("*.json")):
        text = read_document(path, MAX_PROVENANCE_B)
        record = parse_document(text, str(path))
        if not isinstance(record, dict):
            raise InputError(f"{path}: {type(record).__name__} found; allowed: an object")
        if "numa" in record:
            validated(NumaFacts, record["numa"], path, "numa")
        records[path.stem] = record
        digest = hashlib.sha256(text).hexdigest()
        if digest != path.stem:
            misnamed_files[path] = digest
    return Provenance(records, misnamed_files)


def mapping_or_empty(record: Any) -> dict[str, Any]:
    """Return `record` if it is a JSON object, otherwise an empty object."""
    return record if isinstance(record, dict) else {}


def hosts_of(record: Any) -> dict[str, dict[str, Any]]:
    """Host -> its facts (`records.machine.host`), from a block's record; empty without hosts."""
    hosts = mapping_or_empty(mapping_or_empty(record).get("nodes"))
    return {name: mapping_or_empty(facts) for name, facts in hosts.items()}


def all_hosts(records: Iterable[Any]) -> list[dict[str, Any]]:
    """The facts of every host in the records of blocks."""
    return [facts for record in records for facts in hosts_of(record).values()]


#: Name of a fact of a host -> its key in the record. Only root can read `ddio` and `prefetchers`.
HOST_FACTS = {
    "CPU model": "cpu_model",
    "kernel": "kernel",
    "governor": "governor",
    "BIOS": "bios",
    "NIC firmware": "rdma",
    "microcode": "microcode",
    "IOMMU": "iommu",
    "transparent huge pages": "transparent_huge_pages",
    "NUMA balancing": "numa_balancing",
    "DDIO": "ddio",
    "hardware prefetchers": "prefetchers",
    "resctrl schemata": "resctrl",
}
#: Entries that describe a block's allocation: the nodes, and the offsets of their clocks. They may
#: differ between blocks and are not compared. Of the nodes, only `HOST_FACTS` are compared.
ALLOCATION_ENTRIES = ("nodes", "clock_offsets_s")


def reported_facts(hosts: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Name of a fact -> its distinct values on the hosts that report it, sorted.

    The list is empty if no host reports the fact.
    """
    facts_of_hosts = list(hosts)
    distinct_values = {}
    for name, key in HOST_FACTS.items():
        values = {_fact_text(key, facts.get(key)) for facts in facts_of_hosts}
        distinct_values[name] = sorted(value for value in values if value is not None)
    return distinct_values


def _fact_text(key: str, value: Any) -> str | None:
    if key != "rdma":
        return None if value is None else str(value)
    devices = map(mapping_or_empty, value if isinstance(value, list) else [])
    firmware = [
        f"{device.get('name')} {device['firmware']}" for device in devices if device.get("firmware")
    ]
    return ", ".join(firmware) or None


def differing_names(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the entries and host facts in which the records of some blocks differ."""

    def comparable_text(name: str, value: Any) -> str:
        if name == "program" and mapping_or_empty(value):
            value = {**value, "path": None}  # each block compiles the program in another folder
        return json.dumps(value, sort_keys=True)

    differing = []
    for name in sorted(
        {name for record in records for name in record}.difference(ALLOCATION_ENTRIES)
    ):
        if len({comparable_text(name, record.get(name)) for record in records}) > 1:
            differing.append(name)
    facts_of_blocks = [reported_facts(hosts_of(record).values()) for record in records]
    for name in HOST_FACTS:
        # Blocks that do not report a fact are left out, since an unknown fact is no difference.
        if len({tuple(facts[name]) for facts in facts_of_blocks if facts[name]}) > 1:
            differing.append(name)
    return differing
