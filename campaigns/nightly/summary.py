"""The summary of a night: one JSON document, of which everything else about it is made.

It is first written when the night begins, as 'machine failed' and unfinished, and replaced when it
ends. So a night that was killed has the right outcome, whoever looks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from analysis.errors import InputError, MachineError
from analysis.history.tables import Outcome
from analysis.reading import read_json
from analysis.records import PlainName, validated
from analysis.replacing import replace_text
from analysis.trust import require_own

#: Number of the summary's schema.
SUMMARY_SCHEMA = 1
#: Reason of a night that has begun; if it is not running, that is how it ended.
UNFINISHED = "has not ended: it is running, or was killed; its samples are saved"

_Moment = Annotated[float, Field(ge=0, lt=1e11)]
_Hours = Annotated[float, Field(ge=0, lt=1e12)]
_Figure = Annotated[float, Field(gt=-1e300, lt=1e300)]


@dataclass(frozen=True)
class NightFigure:
    """One quantity of one treatment of a case, SI units (`analysis.history.tables.NIGHTS`)."""

    case: PlainName
    arm: PlainName
    #: `fom`, `slowdown`, `writer_rate`, or `counter:ROLE`.
    quantity: str
    unit: str
    #: `higher` or `lower`.
    better: str
    value: _Figure
    #: Interval of 95 %; null from too few runs.
    low: _Figure | None
    high: _Figure | None
    #: Runs or pairs that it is made of.
    count: int
    #: Of a slowdown; null otherwise.
    verdict: str | None = None


@dataclass(frozen=True)
class NightAlarm:
    """What became slower: than the site's reference, or than the machine's own history."""

    case: PlainName
    arm: PlainName
    quantity: str
    #: `reference` or `history`.
    source: str
    text: str


@dataclass(frozen=True)
class NightFailure:
    """A case that could not be measured."""

    case: PlainName
    reason: str


@dataclass(frozen=True)
class Summary:
    """How one night ended."""

    nightly: PlainName
    #: Day on which it was scheduled to start, local time (ISO date).
    night: date
    machine: PlainName
    campaign: PlainName
    started_s: _Moment
    #: Unix time; null if it is running, or was killed.
    finished_s: _Moment | None
    outcome: Outcome
    reason: str
    budget_node_h: _Hours
    used_node_h: _Hours = 0.0
    #: Folder of the run; null if none was begun.
    run: str | None = None
    #: All cases of the campaign, and what was measured of them.
    cases: list[PlainName] = field(default_factory=list)
    figures: list[NightFigure] = field(default_factory=list)
    alarms: list[NightAlarm] = field(default_factory=list)
    failures: list[NightFailure] = field(default_factory=list)
    schema: int = SUMMARY_SCHEMA

    def as_dict(self) -> dict[str, Any]:
        """The summary as in JSON."""
        return {"schema": self.schema} | asdict(self) | {"night": self.night.isoformat()}

    def of_case(self, case: str) -> Summary:
        """What it says of one case. Raises InputError for a case that it does not have.

        If its cases are not known, since the campaign was not read, it says the same of each.
        """
        if self.cases and case not in self.cases:
            raise InputError(f"--case: {case!r} found; allowed: {', '.join(self.cases)}")
        return replace(
            self,
            cases=[case],
            figures=[each for each in self.figures if each.case == case],
            alarms=[each for each in self.alarms if each.case == case],
            failures=[each for each in self.failures if each.case == case],
        )


_SUMMARY = TypeAdapter(Summary)


def path_of(folder: Path, nightly: str, night: date) -> Path:
    """File of a night's summary."""
    return folder / f"{nightly}-{night.isoformat()}.json"


def make_folder(folder: Path) -> None:
    """Make the folder of the summaries. Raises InputError unless it is one's own."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"{folder}: {error.strerror}") from error
    require_own(folder, "results")


def summary_text(summary: Summary) -> str:
    """The document."""
    return json.dumps(summary.as_dict(), indent=1) + "\n"


def write(path: Path, text: str, mode: int | None = None) -> None:
    """Replace a file: readers see the old or the new one. Raises MachineError."""
    try:
        replace_text(path, text, mode)
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from error


def load(path: Path) -> Summary:
    """Read a summary. Raises InputError if it is missing, invalid or newer."""
    try:
        record = read_json(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    schema = record.get("schema") if isinstance(record, dict) else None
    if type(schema) is int and schema > SUMMARY_SCHEMA:
        raise InputError(
            f"{path}: field 'schema' is {str(schema)[:20]}, must be at most {SUMMARY_SCHEMA};"
            " written by a newer nimc, use that version"
        )
    summary: Summary = validated(_SUMMARY, record, path)
    return summary


def summaries(folder: Path, nightly: str) -> Iterator[tuple[date, Path]]:
    """Night and file of all summaries of a nightly, in order."""
    for path in sorted(folder.glob(f"{nightly}-????-??-??.json")):
        try:
            yield date.fromisoformat(path.stem[-10:]), path
        except ValueError:
            continue
