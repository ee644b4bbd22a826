"""The sample record: one application run, the unit of statistics.

A sample is one line of JSON, in SI units: what was run, the application's figure of merit, the
writes observed during the run, and whether it counts. This module uses only the standard library,
because the conductor writes samples on compute nodes that have nothing else.

A *row* is a report of a writer: the bytes that it wrote in an interval. The *window* is the time
from the start to the end of the application.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from records.arms import Role

#: Schema 7 says `accepted` where schema 6 said `kept`. Both are read (`upgraded`), others are not.
SCHEMA_VERSION = 7
_PREVIOUS_VERSION = 6
#: Ending of messages that refuse samples and runs of other schemas. It names the version that reads
#: them.
OLDER_SCHEMAS = "nimc 0.1.0 (commit f7826cd1) reads older ones"

#: Marks a field that has few distinct values in a run. Readers store each distinct value once.
FEW_VALUES = "few values"
Name = Annotated[str, FEW_VALUES]

Better = Literal["lower", "higher"]

#: `both`: as many bytes are written as read, at the same time; figures are for one direction only.
#: `receive`: the target's CPU receives messages (two-sided).
Direction = Literal["write", "read", "both", "receive"]

#: Level of a factor: a number, a boolean, or a word such as `25%`.
Level = int | float | bool | str

#: Outcome of a run. Only `accepted` counts. `rejected`: the required conditions did not hold
#: (see `reason`). All other values name what failed.
Outcome = Literal[
    "accepted",
    "rejected",
    "injector_never_ready",
    "injector_died",
    "application_failed",
    "application_hung",
    "no_fom",
]


#: The proof that bytes arrived, besides the writer's own report: the target's device counted them;
#: the target found the writer's marks in its memory; or none.
Proof = Literal["device", "memory", "unproven"]


#: A writer's marks prove its writes if the target found at least this share of the bytes that the
#: writer reported. The share is below 1 since the rate of a writer varies while the application
#: slows it down.
PROVEN_SHARE = 0.75
#: Uncontended writers at full rate reach at least this share of the link's rate.
FULL_LINK_SHARE = 0.8

#: Largest mean rate of a writer with a requested rate, as a multiple of that rate, and the number
#: of messages that it may write in addition, since a limiter counts whole messages.
MAX_LIMITED_SHARE, MAX_EXTRA_MESSAGES = 1.5, 2

#: Target of a writer whose timetable has many targets.
MANY_TARGETS = "*"


@dataclass(frozen=True, kw_only=True)
class WriterRecord:
    """The writes of one writer during one run."""

    #: Name of the injector: `perftest`, `ucx`, `mpi_put`, `spin`. The name of an injector that
    #: reads ends in `_read`.
    injector: str
    #: Host names of both ends; the target is `*` if a timetable has many targets.
    origin: str
    target: str
    #: Transport of the bytes: a fabric of docs/fabrics.md, `RDMA` (unknown device) or `none`
    #: (control). `two-sided`, alone or after the device's transport and `+`: the target's processor
    #: receives messages that emulate writes. `receives`, alone or after the device's transport and
    #: `+`: the target's processor receives messages, since `direction` is `receive`. `EFA,
    #: emulated`: the target counted fewer RDMA writes than the writers claim.
    transport: str
    #: Size of one write, bytes; 0 for a control, which writes nothing.
    message_b: int
    #: Requested rate, bytes per second; None: full rate.
    asked_b_s: float | None
    #: Rate that the writer reaches while no application runs, bytes per second. It is the median of
    #: the writer's rows without the first row, measured in this block or an earlier one of the case
    #: on the same nodes. Under a timetable, it is the median of the rehearsed writes.
    rate_alone_b_s: float
    #: Time-weighted mean rate in the part of the application's window (its start to its end) that
    #: the writer's rows cover, bytes per second. Rows also cover the time between them if the bytes
    #: that passed in that time were counted. Under a timetable, it is the mean over the time of the
    #: writer's writes.
    rate_b_s: float
    #: Lowest rate of a row that overlaps the window, bytes per second; `rate_b_s` if that is lower.
    #: Under a timetable, it is the lowest rate of a write.
    rate_min_b_s: float
    #: Bytes written in the part of the window that the writer's rows cover, as the writer reported.
    bytes_b: float
    #: Bytes that the target's device counted in `counted_s`. They include the bytes of all writers
    #: of the target and of other traffic, so they cannot be added over writers. For target `*`, the
    #: devices of all targets counted them. None: no counter was read.
    counted_b: float | None = None
    #: Time between two readings of this counter, just before the application started and after it
    #: ended, seconds; None: not read.
    counted_s: float | None = None
    #: Rate that this counter showed while no application ran, bytes per second; None: not read.
    counted_alone_b_s: float | None = None
    #: Name of that counter, for instance `rdma:mlx5_0/1` or `net:eth0`.
    counter: str | None = None
    #: The origin's use of the target's memory; `write` for a control.
    direction: Direction = "write"
    #: Memory of the target that the messages pass through again and again, bytes; 0 for a control.
    footprint_b: int | None = None
    #: NUMA node that the buffers of both ends were bound to; None: not bound.
    buffer_node: int | None = None
    #: NUMA node -> bytes of the target's, and of the origin's, buffers on it, as the kernel
    #: reports; empty if unknown, so that the binding is unverified.
    target_buffers_b: dict[str, int] = field(default_factory=dict)
    origin_buffers_b: dict[str, int] = field(default_factory=dict)
    #: Share of the target's buffer that lay on `buffer_node`; None: not bound, or unverified.
    target_on_node_share: float | None = None
    #: Memory of the target's process that is pinned for a device (VmPin) and cannot be moved,
    #: bytes; None: unknown.
    target_pinned_b: int | None = None
    #: Memory of the target's process in huge pages, reserved or transparent, bytes; None: unknown.
    target_huge_b: int | None = None
    #: The injector's own NUMA binding: `none`, `none in this version`, or the option that turned it
    #: off; None: unknown, or under a timetable.
    own_binding: str | None = None
    #: Share of the window that the writer's rows cover, and the longest time within the window that
    #: they do not cover, seconds; None under a timetable.
    observed_share: float | None = None
    unobserved_s: float | None = None
    #: The proof of the writes, besides the writer's report: bytes counted by the target's `device`,
    #: marks of the writer in its `memory`, or nothing (`unproven`); None for a control.
    proof: Proof | None = None
    #: Share of the bytes reported by the writer that the target found in its memory; None: the
    #: target did not look.
    overwritten_share: float | None = None
    #: Share of a core that a control used within the window; None for a writer. No least share is
    #: required, since the application may take the core.
    cpu_share: float | None = None
    #: Options that the programs of both ends got, for their fabric, such as the index of a GID, and
    #: from the machine's file (`perftest_options`); empty without options. None for an end without
    #: a program of its own, and under a timetable.
    target_options: str | None = None
    origin_options: str | None = None
    #: Queue pairs over which the writer's program wrote; None for a control and under a timetable.
    queue_pairs: int | None = None
    #: What held the writer at its requested rate: the `agent`, which suspends the writer again and
    #: again, or a limiter in the program (`software`); None at full rate.
    limited_by: str | None = None
    #: Mean rate from the writer's second row to the start of the application, bytes per second;
    #: None for a control, if there was no second row by then, and under a timetable.
    rate_before_b_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class TimetableRecord:
    """The short writes of a run: how they were planned, and how they were made."""

    #: Writers active at a time; if 0, nothing is planned or done.
    writers: int | None = None
    #: Planned length of a write, seconds.
    length_s: float | None = None
    #: Largest allowed deviation of the start or end of a write from its planned time, seconds.
    tolerance_s: float | None = None
    #: Largest allowed share of the planned writing that is missing, or that is in excess.
    allowed_share: float | None = None
    #: Messages per write.
    messages: int = 0
    #: Writes that were due within the window.
    planned: int = 0
    #: Planned writes that were made within the window.
    done: int = 0
    #: Writes that were made within the window, but too slowly to count.
    slow: int = 0
    #: Writes that were made twice or outside the plan.
    unplanned: int = 0
    #: Missing writing, and writing beyond the plan, as shares of the time that all writers together
    #: would write in the window if they wrote all the time.
    missing_share: float | None = None
    excess_share: float | None = None
    #: Bytes of all planned writes that overlap the window.
    bytes_b: float = 0.0
    #: Actual minus planned start and end of writes by the writers' corrected clocks, seconds:
    #: median and largest magnitude.
    start_median_s: float = 0.0
    start_worst_s: float = 0.0
    end_median_s: float = 0.0
    end_worst_s: float = 0.0
    #: Time of a write's connection set-up, which is not part of the write, seconds: median and
    #: largest.
    setup_median_s: float = 0.0
    setup_worst_s: float = 0.0
    #: Largest error of the writers' corrected clocks, seconds.
    clock_error_s: float = 0.0


@dataclass(frozen=True)
class DeviceBytes:
    """Bytes that passed one device of a node during a run."""

    #: Name of the device, and the bytes that arrived and left.
    device: str
    received_b: int
    sent_b: int


@dataclass(frozen=True, kw_only=True)
class NodeConditions:
    """Disturbances of one target node during a run of any arm.

    A value is None if it cannot be read on the node.
    """

    #: Host name.
    node: str
    #: Time between the two readings, which enclose the run, seconds.
    over_s: float
    #: Mean number of hardware threads kept busy by processes that do not belong to this block.
    foreign_cpus: float | None = None
    #: Share of the node's processor time that the hypervisor took.
    steal_share: float | None = None
    #: Mean frequency of the application's cores, Hz; of all cores if the application is not pinned.
    frequency_hz: float | None = None
    #: Bytes per second that the node's devices received and sent, and the names of their counters,
    #: joined with `+`. Also None if writers are on the same host.
    received_b_s: float | None = None
    sent_b_s: float | None = None
    counter: str | None = None
    #: Bytes received and sent by each rail, or by the writers' device if the machine's file lists
    #: no rails; empty if the count of one of these devices is unknown.
    devices: list[DeviceBytes] = field(default_factory=list)
    #: CPUs on which no busy thread of the application might run, as the kernel lists them (`0-3,8`;
    #: empty: none). None if no busy thread was found, as in a run of less than 1.3 s.
    free_cpus: str | None = None


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One application run."""

    #: Unique name: case/block/pair/arm/attempt.
    key: str
    #: The case measured, as named in the campaign (`stream`, `lammps@4`).
    case: Name
    #: Name of the file in `reframe_tests/` that reads the output, or of a check that reads its own
    #: output.
    workload: Name
    #: Name of the treatment: an arm (`off`, `on`, `spin`, `aa`) and, after `@`, the levels that
    #: differ from the first ones (`on@rate=25%`).
    arm: Name
    #: Index of the allocation (indices may be missing, and are not reused), of the pair in the
    #: allocation (negative: a warm-up), of the run in the pair, and of the repetition of the run
    #: (only the last repetition may be accepted).
    block: int
    pair: int
    position: int
    attempt: int
    #: A warm-up is ignored by every estimate.
    warmup: bool
    #: How the run ended. A run counts if it is `accepted` and is not a warm-up.
    outcome: Outcome
    #: Why the run was not accepted, in one line; None if it was accepted.
    reason: str | None
    #: Start (Unix time by the conductor's clock) and duration of the application, seconds. If the
    #: application never started, they are the start of the run, and 0.
    start_s: float
    elapsed_s: float
    #: Figure of merit in SI units, above 0 if accepted; None if the run yielded none.
    fom: float | None
    #: Unit of the figure of merit: `s`, `B/s`, `1/s`, ...
    fom_unit: Name
    #: Whether a lower or a higher figure of merit is better.
    fom_better: Better
    #: Host names of targets and of origins. The lists are equal if one host is both.
    nodes: list[str]
    origin_nodes: list[str]
    #: SHA-256 that names the file in `provenance/` on how the run was made.
    provenance: Name
    #: Seed of the block's order of runs; may be wider than 64 bits.
    seed: Annotated[int, FEW_VALUES]
    #: Other figures that the workload reports, in SI units; a key ends with its unit if it has one.
    fom_extra: dict[str, float] = field(default_factory=dict)
    #: A record for each writer, or for the control; empty if there was neither, or if the timetable
    #: did not begin.
    writers: list[WriterRecord] = field(default_factory=list)
    #: The short writes; None if there was no timetable, or if it did not begin.
    timetable: TimetableRecord | None = None
    #: Caveats to show with every figure made from this sample (`arrays smaller than ...`).
    notes: list[str] = field(default_factory=list)
    #: Role of the treatment; `floor` is the repeated baseline.
    role: Role
    #: Name of the treatment that this treatment is paired with; None for a baseline.
    baseline: Name | None = None
    #: Factor -> level. Of the factors that change writes, treatments without writes have only
    #: `rate`.
    factors: Annotated[dict[str, Level], FEW_VALUES] = field(default_factory=dict)
    #: Time from the end of the application in the block's previous run to its start in this one,
    #: seconds; None for the first run of a block. If the previous run never started its
    #: application, the time begins when everything had stopped.
    lead_in_s: float | None = None
    #: Memory that each rank works in, or each thread of STREAM and membench, bytes. The check
    #: computes it from its sizes (docs/workloads.md). None if the check does not compute it.
    working_set_b: float | None = None
    #: One record for each target node; empty if the writers or the timetable were not ready.
    conditions: list[NodeConditions] = field(default_factory=list)
    #: SHA-256 of the lines of this sample's counts in `counters/`; None if nothing was counted.
    counters_sha256: str | None = None
    #: The outputs of the application and the series by which the sample was judged, as the run
    #: stores them (`records.run_folder`): path relative to the run's folder -> SHA-256 of the
    #: content.
    logs: dict[str, str] = field(default_factory=dict)
    #: Version of the sample's format.
    schema: int = SCHEMA_VERSION

    def as_dict(self) -> dict[str, Any]:
        """The record as a JSON object."""
        return asdict(self)


def upgraded(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of the previous schema in this schema; any other record as it is."""
    if record.get("schema") != _PREVIOUS_VERSION:
        return record
    outcome = record.get("outcome")
    return {
        **record,
        "schema": SCHEMA_VERSION,
        "outcome": "accepted" if outcome == "kept" else outcome,
    }


# A tool's count of one event in one rank of one run.


#: The tools whose counters agents read in every run; they wrap no application. One reads all
#: counters of the target nodes, the other a few counters of origins on other nodes.
NODE_TOOL, ORIGIN_TOOL = "node", "origin"
AGENT_TOOLS = (NODE_TOOL, ORIGIN_TOOL)

#: The counters of agents whose sum is the processor time of traffic: interrupts, soft interrupts,
#: kernel threads, and the processes at the writers' ends (under a timetable, these are not
#: counted). Of origins on other nodes, only these are kept.
IRQ_TIME = "irq-time"
SOFTIRQ_TIME = "softirq-time"
KERNEL_THREADS_TIME = "kernel-threads-time"
WRITERS_TIME = "writers-time"
TRAFFIC_CPU_TIMES = (IRQ_TIME, SOFTIRQ_TIME, KERNEL_THREADS_TIME, WRITERS_TIME)

#: State of a count: complete; extrapolated, because events shared a counter; not available on this
#: processor or kernel; not counted by the tool.
State = Literal["counted", "multiplexed", "not supported", "not counted"]


@dataclass(frozen=True, kw_only=True)
class CounterRow:
    """The count of one event in a rank or on a node."""

    #: Number of the rank; if a tool counted a whole node, the number of the node's first rank. For
    #: the tools `node` and `origin`, the node's index in the sample's `nodes` or `origin_nodes`; -1
    #: for all nodes together (`NodesRow`).
    rank: int
    #: The tool's name of the event: `cycles`, or `cycles:u` for user mode only.
    event: str
    #: In SI units; None if nothing was counted (`state`).
    value: float | None
    #: `count`, `s`, `B`, ...
    unit: str
    #: Complete, extrapolated, not available there, or not counted by the tool.
    state: State = "counted"
    #: Share of the run in which the event was counted; None: unknown.
    running_share: float | None = None


@dataclass(frozen=True, kw_only=True)
class NodesRow(CounterRow):
    """One counter of all nodes of a job that has many; `rank` is -1, and `value` their sum.

    For a share or a frequency, `value` is their mean.
    """

    #: Number of nodes that had the counter, and the median over them. None in a row of one rank or
    #: node.
    nodes: int | None = None
    median: float | None = None
    #: Least and largest value, and the indices of the nodes that had them, as in `rank`.
    least: float | None = None
    least_node: int | None = None
    most: float | None = None
    most_node: int | None = None


#: Units of shares and frequencies, which do not add up over ranks and nodes.
AVERAGED_UNITS = ("1", "Hz")


def event_parts(event: str) -> tuple[str, str]:
    """Name and modifiers: `cycles` and `u` of `cycles:u` and of `cpu_core/cycles/u`."""
    if event.count("/") == 2:
        _, event, modifiers = event.split("/")
        return event, modifiers
    event, _, modifiers = event.partition(":")
    return event, modifiers
