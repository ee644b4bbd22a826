"""The sample record: one application run, the unit of statistics.

A sample is one line of JSON. Whatever made it, it says in SI units what was run, what the
application reported of itself, what the writers were seen to write meanwhile, and whether it
counts. This module needs the standard library only, because the conductor writes samples on
compute nodes that have nothing else.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from analysis.arms import Role

#: 2 added `role`, `baseline` and `factors`; samples of schema 1 are still read.
SCHEMA_VERSION = 2

#: Marks a field that has few values in a run, which readers keep once each.
NAME = "name"
Name = Annotated[str, NAME]

Better = Literal["lower", "higher"]

Direction = Literal["write", "read"]

#: Level of a factor: a number, a truth value, or a word such as `25%`.
Level = int | float | bool | str

#: What became of a run. Only `kept` counts. `rejected`: the application ran, but the conditions
#: asked for did not hold (reason says which). Every other value names who failed.
Outcome = Literal[
    "kept",
    "rejected",
    "injector_never_ready",
    "injector_died",
    "application_failed",
    "application_hung",
    "no_fom",
]


#: Target of a writer that a timetable sends to many.
MANY = "*"


@dataclass(frozen=True)
class WriterRecord:
    """What one writer did during one run."""

    #: Name of the injector: `perftest`, `ucx`, `spin`; those that read end in `_read`.
    injector: str
    #: Host names of the two ends; the target is `MANY` where a timetable names many.
    origin: str
    target: str
    #: What the bytes went over: `shared memory`, `tcp`, `soft-RoCE`, `InfiniBand`, `none`.
    transport: str
    #: Size of one write, bytes; 0 for a control, which writes nothing.
    message_b: int
    #: Rate asked for, bytes per second; None is full rate.
    asked_b_s: float | None
    #: Rate that the writer reaches with no application running, bytes per second.
    rate_alone_b_s: float
    #: Time-weighted mean rate within the application's window, bytes per second.
    rate_b_s: float
    #: Lowest rate of any reported row that overlaps the window, bytes per second.
    rate_min_b_s: float
    #: Bytes the writer claims to have written within the window.
    bytes_b: float
    #: Bytes the target's device counted meanwhile, all its writers together, and of `MANY` targets
    #: the devices of all; None: no counter read.
    counted_b: float | None = None
    #: Time between its two readings, just before the application began and after it ended; and the
    #: rate that it showed while no application ran, bytes per second. None: not read.
    counted_s: float | None = None
    counted_alone_b_s: float | None = None
    #: Which counter that was, for instance `rdma:rxe0/1` or `net:eth0`.
    counter: str | None = None
    #: What the origin did to the target's memory.
    direction: Direction = "write"
    #: NUMA node that the buffers of both ends were bound to; None left them alone.
    buffer_node: int | None = None
    #: NUMA node -> bytes of the buffers that the kernel put there; empty: it was not asked, or does
    #: not tell, and the binding is unverified.
    target_buffers_b: dict[str, int] = field(default_factory=dict)
    origin_buffers_b: dict[str, int] = field(default_factory=dict)
    #: Share of the target's buffer that lay on `buffer_node`; None: not bound, or unverified.
    target_on_node_share: float | None = None
    #: Memory of the target's process that no page can be moved of, since a device may reach it at
    #: any time (VmPin), bytes; None: not told.
    target_pinned_b: int | None = None
    #: What the injector does about NUMA by itself: `none`, or that it was told not to.
    own_binding: str | None = None


@dataclass(frozen=True)
class TimetableRecord:
    """What came of a run's timetable of short writes, by the clocks of those who wrote."""

    #: Writers at work at a time; 0 where the arm had none to run, and all that follows is 0.
    writers: int
    #: Length of a write as planned, seconds.
    length_s: float
    #: How late or early a write may start or end, seconds; the share of the planned writing that
    #: may be missing or be beyond the plan.
    tolerance_s: float
    allowed_share: float
    #: Messages that a write is made of.
    messages: int = 0
    #: Writes due within the run, how many were done, how many of these too slowly, and how many
    #: were in no plan.
    planned: int = 0
    done: int = 0
    slow: int = 0
    unplanned: int = 0
    #: Writing that was missing, and beyond the plan, as shares of all writers all the time.
    missing_share: float = 0.0
    excess_share: float = 0.0
    #: Bytes of all writes that overlap the run.
    bytes_b: float = 0.0
    #: Start and end less planned start and end, seconds: median and largest in size.
    start_median_s: float = 0.0
    start_worst_s: float = 0.0
    end_median_s: float = 0.0
    end_worst_s: float = 0.0
    #: Set-up of a write's connection, which is no part of it; and the largest error of a clock.
    setup_median_s: float = 0.0
    setup_worst_s: float = 0.0
    clock_error_s: float = 0.0


@dataclass(frozen=True)
class Sample:
    """One application run."""

    #: Unique name: case/block/pair/arm/attempt.
    key: str
    #: What was measured, as the campaign names it (`stream`, `lammps@4`).
    case: Name
    #: Row of the table of workloads.
    workload: Name
    #: Name of the treatment: an arm (`off`, `on`, `spin`, `aa`) and, after `@`, the levels that
    #: differ from the first ones (`on@rate=25%`).
    arm: Name
    #: Index of the allocation, of the pair in it, of the run in the pair, and of the repetition.
    block: int
    pair: int
    position: int
    attempt: int
    #: A warm-up is thrown away by every estimate.
    warmup: bool
    outcome: Outcome
    #: One line for people; None where the sample was kept.
    reason: str | None
    #: Wall-clock start (Unix time) and length of the application's run, seconds.
    start_s: float
    elapsed_s: float
    #: Figure of merit in SI units; None where the run yielded none.
    fom: float | None
    #: `s`, `B/s`, `1/s`, ...
    fom_unit: Name
    fom_better: Better
    #: Host names.
    nodes: list[str]
    origin_nodes: list[str]
    #: Name of the file in `provenance/` that tells how the run was made (its SHA-256).
    provenance: Name
    #: Seed of the block's order of runs; may be wider than 64 bits.
    seed: Annotated[int, NAME]
    #: Whatever else the workload reports, SI units in the key names.
    fom_extra: dict[str, float] = field(default_factory=dict)
    writers: list[WriterRecord] = field(default_factory=list)
    #: None where the writers followed no timetable.
    timetable: TimetableRecord | None = None
    #: Caveats that belong beside every figure made from this sample (`arrays smaller than ...`).
    notes: list[str] = field(default_factory=list)
    #: What the treatment is for; None in samples of schema 1, whose arms say it.
    role: Role | None = None
    #: Name of the treatment that it is paired with; None for a baseline.
    baseline: Name | None = None
    #: Factor -> level. A factor of the writes has none where nothing is written.
    factors: Annotated[dict[str, Level], NAME] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION

    def as_dict(self) -> dict[str, Any]:
        """The record as it is written, one JSON object."""
        return asdict(self)
