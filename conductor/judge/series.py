"""The series of readings of one run, by which the judge decides whether the run counts.

Agents record the series, the hub corrects the clocks of their times, and the conductor adds the
rates that writers are compared with. Series are stored beside the run's outputs, so that a stored
run can be judged again.
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
#: Ending of the name of a run's series file, after the stem that all files of the run share.
ENDING = ".series.json"


@dataclass(kw_only=True)
class WriterSeries:
    """The rows and counts of one writer or control, and the rates that it is compared with."""

    #: Number of the writer among the writers of one kind, for messages to people.
    number: int
    injector: str
    writer: Writer
    transport: str
    #: Length of a row, seconds.
    row_s: float
    #: Shortest time over which its rate is computed from counts, seconds; None if the writer shares
    #: its device, so that its bytes are not counted separately.
    counted_s: float | None = None
    rows: list[RateRow] = field(default_factory=list)
    #: Counts of its bytes by its meter (`MeterRecord.source`). If the writer shares its device,
    #: these are the bytes of all writers that use the device.
    samples: list[CounterSample] = field(default_factory=list)
    #: The writer's rate without an application, bytes per second; 0 for a control, which has no
    #: required rate.
    alone_b_s: float = 0.0
    #: Rate of all writers of its target without an application, bytes per second, as the target's
    #: device counted it; None if not counted.
    counted_alone_b_s: float | None = None
    meter: MeterRecord = field(default_factory=lambda: MeterRecord(0))
    placed: list[Placement] = field(default_factory=list)

    def copy(self, first_row: int = 0) -> WriterSeries:
        """Return a copy from row `first_row` on, which later reports do not change."""
        return replace(self, rows=self.rows[first_row:], samples=[*self.samples])


@dataclass(frozen=True)
class Rails:
    """The rails (RDMA devices) of a node, by name, and which of them a run may use."""

    devices: list[str]
    #: Rails that bytes of the run must pass.
    required: list[str]
    #: All rails that bytes of the run may pass.
    allowed: list[str]


@dataclass(frozen=True, kw_only=True)
class Series:
    """All readings by which one run is judged."""

    #: Readings on each target.
    nodes: list[NodeSeries] = field(default_factory=list)
    writers: list[WriterSeries] = field(default_factory=list)
    #: Records of the writers under a timetable, from their own reports.
    claims: list[WriterRecord] = field(default_factory=list)
    #: Why writers did not follow their timetable.
    off_plan: list[str] = field(default_factory=list)
    #: Directions in which no bytes may pass the targets, since the run's treatment writes nothing.
    silent: list[TrafficDirection] = field(default_factory=list)
    #: Highest uncontended rate of a treatment of the block, summed over its writers, bytes per
    #: second; 0 if no treatment writes.
    alone_b_s: float = 0.0
    #: The rails that bytes must and may pass; None if rails are not judged.
    rails: Rails | None = None
    #: Indices of held (suspended) writers of which an end ran during the run.
    ran: list[int] = field(default_factory=list)
    #: Longest time for which the conductor did not run, seconds.
    stood_still_s: float = 0.0
    #: How much further the conductor's wall clock moved than its monotonic clock, seconds.
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


def read(content: bytes) -> StoredSeries:
    """Return the series that `save` wrote. Raises ValueError if the content is invalid."""
    stored: StoredSeries = _adapter().validate_json(content)
    return stored


@cache
def _adapter() -> Any:
    from pydantic import TypeAdapter  # nodes only write series, which does not need pydantic

    return TypeAdapter(StoredSeries)
