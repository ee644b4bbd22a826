"""The record of `nimc inject`: what writers wrote, when, and what proved it.

This module uses only the standard library, because the conductor writes the record.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from records.files import replace_text
from records.sample import WriterRecord

#: Version of the record's format. It is raised when a key is removed or changes its meaning.
SCHEMA = 1
#: Files of an injection in progress: its readings, one per line; and all other facts.
READINGS_FILE, SUMMARY_FILE = "readings.jsonl", "summary.json"

#: What ended the writes: the end of the command, the time limit of `--for`, Ctrl-C or a signal, or
#: a failure of a writer or of the machine.
EndedBy = Literal["command", "time", "stop", "failure"]


@dataclass(frozen=True)
class WrittenRow:
    """Bytes that a writer wrote between two times."""

    #: Index of the writer in `Reading.writers`.
    writer: int
    #: Unix time by the conductor's clock, and the bytes that the writer reported.
    start_s: float
    end_s: float
    bytes_b: float


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A period in which all writers were checked; the next reading begins at its end."""

    #: Unix time by the conductor's clock.
    start_s: float
    end_s: float
    #: True if something other than the writers' own reports shows that all of them wrote, at the
    #: least share of their uncontended rate, through the whole period.
    proven: bool
    #: Why the period is not proven, in one line; null if it is proven.
    reason: str | None
    #: A record for each writer, as in a sample. The period takes the place of the application's
    #: window.
    writers: list[WriterRecord] = field(default_factory=list)
    #: The writers' reports that ended in this period, in their order. The first reports may have
    #: begun before the period.
    rows: list[WrittenRow] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class InjectionSummary:
    """The record without its readings."""

    #: Machine, and the checkout's commit (null: unknown, with `+`: changed).
    machine: str
    commit: str | None
    #: Rate as requested: `full`, a share of the full rate, or bytes per second a writer.
    rate: str
    #: Rate of the link, bytes per second; null if the machine's file does not say it.
    link_rate_b_s: float | None
    #: Caveats of these writes, such as that they are emulated.
    notes: list[str] = field(default_factory=list)
    #: Names of the target hosts and of the origin hosts. The lists are equal if one host is both.
    targets: list[str] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    #: Start and end of the writes that were checked, Unix time; null: nothing was written.
    start_s: float | None = None
    end_s: float | None = None
    #: Bytes that all writers reported for this time.
    bytes_b: float = 0.0
    #: True if there are readings and all of them are proven.
    proven: bool = False
    #: Why the writes are not proven, in one line; null if they are proven.
    reason: str | None = None
    #: Total length of the proven readings, seconds.
    proven_s: float = 0.0
    #: The end of the writes; null while they go on.
    ended_by: EndedBy | None = None
    #: The command, when it began and ended (Unix time), and its exit status (128 + N if signal N
    #: ended it); empty and null without a command.
    command: list[str] = field(default_factory=list)
    command_start_s: float | None = None
    command_end_s: float | None = None
    exit_status: int | None = None


@dataclass(frozen=True)
class Injection(InjectionSummary):
    """The whole record."""

    #: All readings, in order of time.
    readings: list[Reading] = field(default_factory=list)
    #: Version of the record's format.
    schema: int = SCHEMA


def add_reading(folder: Path, reading: Reading) -> None:
    """Append a reading."""
    with (folder / READINGS_FILE).open("a") as file:
        file.write(json.dumps(asdict(reading), separators=(",", ":"), allow_nan=False) + "\n")


def save_summary(folder: Path, summary: InjectionSummary) -> None:
    """Write the summary, which replaces an earlier one."""
    replace_text(folder / SUMMARY_FILE, json.dumps(asdict(summary), allow_nan=False))


def save_record(folder: Path, record_file: Path) -> None:
    """Write the record from the files in a folder; the lines of its readings are not parsed.

    Raises OSError without a summary, or if the file cannot be written.
    """
    summary = json.loads((folder / SUMMARY_FILE).read_bytes())
    summary_text = json.dumps({"schema": SCHEMA, **summary}, indent=1).removesuffix("\n}")
    lines = (folder / READINGS_FILE).read_text().splitlines(keepends=True)
    # A crash may have left the last line incomplete.
    readings = ",\n".join(f"  {line.rstrip()}" for line in lines if line.endswith("\n"))
    replace_text(record_file, f'{summary_text},\n "readings": [\n{readings}\n ]\n}}\n')


def begin(folder: Path) -> None:
    """Begin a record without readings."""
    (folder / READINGS_FILE).touch()
