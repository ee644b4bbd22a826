"""How runs were made: files in `provenance/`, each named by the SHA-256 of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records.errors import InputError
from records.json_limits import parsed, read_text, validated
from records.run import NumaFacts


@dataclass(frozen=True)
class Provenance:
    """All records of a run."""

    #: Name of the file (without ending) -> its content.
    records: dict[str, dict[str, Any]]
    #: File -> SHA-256 of its content, which is not its name.
    misnamed: dict[Path, str]


def read_provenance(run: Path) -> Provenance:
    """The records of the run in folder `run`. Raises InputError for one that cannot be used."""
    records, misnamed = {}, {}
    for path in sorted((run / "provenance").glob("*.json")):
        text = read_text(path)
        record = parsed(text, str(path))
        if not isinstance(record, dict):
            raise InputError(f"{path}: {type(record).__name__} found; allowed: an object")
        if "numa" in record:
            validated(NumaFacts, record["numa"], path, "numa")
        records[path.stem] = record
        digest = hashlib.sha256(text).hexdigest()
        if digest != path.stem:
            misnamed[path] = digest
    return Provenance(records, misnamed)


def mapping(found: Any) -> dict[str, Any]:
    """What should be an object; an empty one if it is something else."""
    return found if isinstance(found, dict) else {}


def hosts_of(record: Any) -> dict[str, dict[str, Any]]:
    """Host -> its facts (`records.machine.host`), in a block's record; empty if it has none."""
    hosts = mapping(mapping(record).get("nodes"))
    return {name: mapping(facts) for name, facts in hosts.items()}


def all_hosts(records: Iterable[Any]) -> list[dict[str, Any]]:
    """The facts of the hosts of all blocks, one after the other."""
    return [facts for record in records for facts in hosts_of(record).values()]
