"""A run: one execution of a campaign on a machine, and the layout of its folder.

run.json                 this header
samples/CASE.jsonl       one sample a line (`analysis.sample.Sample`), only ever appended to
counters/CASE.jsonl      what tools counted in each run's ranks (`analysis.counters`)
provenance/SHA256.json   how runs were made; samples name these files
logs/CASE/BLOCK/         what the application, the writers and ReFrame printed
report/                  report.html and the data behind it; can be made again at any time
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from analysis.errors import InputError

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class RunHeader:
    """What was asked of which machine."""

    #: Name of the run's folder: CAMPAIGN-MACHINE-STARTED.
    run: str
    campaign: str
    machine: str
    started_s: float
    #: Unix time; None while the run is not complete.
    finished_s: float | None
    #: SHA-256 of the resolved campaign and machine: a run resumes only under the same one.
    digest: str
    #: Text of the campaign file.
    campaign_text: str
    #: Pairs a case: at least, at most, and the relative half-width of the interval to reach.
    pairs_floor: int
    pairs_cap: int
    precision: float | None
    #: Facts of the machine, as detected (`injection.machine.host`) and as its site file says.
    facts: dict[str, Any] = field(default_factory=dict)
    #: Name -> version of the software that made the run.
    versions: dict[str, str] = field(default_factory=dict)
    #: Commit of this project, with `+` where the tree was changed; None outside a checkout.
    commit: str | None = None
    schema: int = SCHEMA_VERSION

    def as_dict(self) -> dict[str, Any]:
        """The header as `run.json` holds it."""
        return asdict(self)


_HEADER = TypeAdapter(RunHeader)


def load_header(run: Path) -> RunHeader:
    """The header of the run in folder `run`. Raises InputError for none and for a newer one."""
    path = run / "run.json"
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{run}: no run here (it has no run.json)") from error
    try:
        header = _HEADER.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "file"
        raise InputError(f"{path}: field '{name}': {first['msg']}") from error
    if header.schema > SCHEMA_VERSION:
        raise InputError(
            f"{path}: field 'schema' is {header.schema}, must be at most {SCHEMA_VERSION}; "
            "a newer nimc wrote this, read it with that one"
        )
    return header


def save_header(run: Path, header: RunHeader) -> None:
    """Writes `run.json`; whoever reads meanwhile sees the old or the new one, never half of it."""
    path = run / "run.json"
    partial = path.with_suffix(".json.partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(header.as_dict(), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
