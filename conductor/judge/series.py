"""The record of one run: series of readings, from which the judge says if it counts.

Agents record them, the hub corrects their clocks, and the conductor adds what the run is measured
against. They are stored beside the run's outputs, so that a stored run can be judged again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from conductor.counters import TrafficDirection
from conductor.injectors.base import Writer
from conductor.readings import CounterSample, MeterRecord, NodeSeries, Placement, RateRow
from records.acceptance import AcceptanceLimits
from records.files import replace_text
from records.sample import WriterRecord

#: When the application of a run started and ended, Unix time.
Window = tuple[float, float]
#: Ending of the file of a run's series, after the stem of its other files.
ENDING = ".series.json"


@dataclass(kw_only=True)
class WriterSeries:
    """The rows of one writer, or control, what counted it, and what it is measured against."""

    #: Its number among the writers of one kind, for people.
    number: int
    injector: str
    writer: Writer
    transport: str
    #: Length of a row, seconds.
    row_s: float
    #: Shortest time over which what is counted is its rate, seconds; None: it shares the device.
    counted_s: float | None = None
    rows: list[RateRow] = field(default_factory=list)
    #: Bytes counted at its origin; of all writers that share its device.
    samples: list[CounterSample] = field(default_factory=list)
    #: Its rate without an application, bytes per second (of a control 0: none is required), and
    #: what its target's device then counted, of all its writers; None: not counted.
    alone_b_s: float = 0.0
    counted_alone_b_s: float | None = None
    meter: MeterRecord = field(default_factory=lambda: MeterRecord(0))
    placed: list[Placement] = field(default_factory=list)

    def copy(self, first_row: int = 0) -> WriterSeries:
        """The series as it is now, from a row on; what the writer reports later is not in it."""
        return replace(self, rows=self.rows[first_row:], samples=[*self.samples])


@dataclass(frozen=True)
class Rails:
    """The devices of a node, those that a run's bytes must pass, and all that they may pass."""

    devices: list[str]
    required: list[str]
    allowed: list[str]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Everything that says whether one run counts."""

    #: The targets.
    nodes: list[NodeSeries] = field(default_factory=list)
    writers: list[WriterSeries] = field(default_factory=list)
    #: The claims of the writers of a timetable.
    claims: list[WriterRecord] = field(default_factory=list)
    #: Why writers did not follow their timetable.
    off_plan: list[str] = field(default_factory=list)
    #: Directions at the targets in which nothing of the run's treatment goes, and the rate of all
    #: writers of the block together without an application, bytes per second.
    silent: list[TrafficDirection] = field(default_factory=list)
    alone_b_s: float = 0.0
    #: None: not judged.
    rails: Rails | None = None
    #: Held writers of which an end ran.
    ran: list[int] = field(default_factory=list)
    #: Longest time that the conductor did not run, and by how much its wall clock moved further
    #: than the monotonic one, seconds.
    stood_still_s: float = 0.0
    clock_moved_s: float = 0.0


@dataclass(frozen=True)
class StoredSeries:
    """The file of a run's series."""

    limits: AcceptanceLimits
    series: Series


def save(series: Series, limits: AcceptanceLimits, path: Path) -> None:
    """Store the series of a run, and the limits by which it was judged.

    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    record = asdict(StoredSeries(limits, series))
    replace_text(path, json.dumps(record, separators=(",", ":"), allow_nan=False))


def read(text: bytes) -> StoredSeries:
    """Return what `save` wrote. Raises ValueError."""
    stored: StoredSeries = _reader().validate_json(text)
    return stored


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter  # nodes only write

    return TypeAdapter(StoredSeries)
