"""A run: one execution of a campaign on a machine. Layout of its folder:

run.json                 this header
samples/CASE.jsonl       one sample per line (`analysis.sample.Sample`), append only
counters/CASE.jsonl      counts of tools in each run's ranks (`analysis.counters`)
provenance/SHA256.json   how runs were made; samples refer to these files
logs/CASE/BLOCK/         output of the application, the writers and ReFrame
report/                  report.html and its data; can be rebuilt at any time
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from analysis.errors import InputError

#: 2 added `margin`, `seed` and `asked`; headers of schema 1 are still read.
SCHEMA_VERSION = 2

#: Smallest relative effect of interest, unless a campaign states another.
MARGIN = 0.02


@dataclass(frozen=True)
class Asked:
    """What the campaign asked of every run, for checking what is stored against it."""

    #: Case -> names of the treatments of each of its pairs, in the plan's order.
    cases: dict[str, list[str]]
    #: Least share of its rate alone that every writer had to reach.
    min_share: float
    #: How often a rejected run was repeated at most.
    retries: int


@dataclass(frozen=True)
class RunHeader:
    """The campaign, the machine, and facts about both."""

    #: Name of the run's folder: CAMPAIGN-MACHINE-STARTED.
    run: str
    campaign: str
    machine: str
    started_s: float
    #: Unix time; None while the run is not complete.
    finished_s: float | None
    #: SHA-256 of the resolved campaign and machine; a run resumes only if it is the same.
    digest: str
    #: Text of the campaign file.
    campaign_text: str
    #: Pairs per case: minimum, maximum, and the target for the interval's relative half-width.
    pairs_floor: int
    pairs_cap: int
    precision: float | None
    #: Facts of the machine, detected (`injection.machine.host`) and from its site file.
    facts: dict[str, Any] = field(default_factory=dict)
    #: Name -> version of the software that made the run.
    versions: dict[str, str] = field(default_factory=dict)
    #: Commit of this project, with `+` if files were changed; None outside a checkout.
    commit: str | None = None
    #: 'No effect' is said of an effect whose whole interval is closer to 1 than this share.
    margin: float = MARGIN
    #: Seed of the order of runs (`analysis.order.run_seed`); None in headers of schema 1.
    seed: int | None = None
    #: None in headers of schema 1.
    asked: Asked | None = None
    schema: int = SCHEMA_VERSION

    def as_dict(self) -> dict[str, Any]:
        """The header as written to `run.json`."""
        return asdict(self)


_HEADER = TypeAdapter(RunHeader)


def load_header(run: Path) -> RunHeader:
    """The header of the run in folder `run`. Raises InputError if missing, invalid or newer."""
    path = run / "run.json"
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{run}: not a run folder (no run.json)") from error
    try:
        header = _HEADER.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "file"
        raise InputError(f"{path}: field '{name}': {first['msg']}") from error
    if header.schema > SCHEMA_VERSION:
        raise InputError(
            f"{path}: field 'schema' is {header.schema}, must be at most {SCHEMA_VERSION}; "
            "written by a newer nimc, use that version"
        )
    return header


def save_header(run: Path, header: RunHeader) -> None:
    """Writes `run.json` atomically: readers see the old or the new file, never a partial one."""
    path = run / "run.json"
    partial = path.with_suffix(".json.partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(header.as_dict(), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
