"""A treatment: all experimental conditions of a run, as one record.

The mixin of all checks makes treatments: `reframe_tests/crossing.py` names them, and a check adds
the application's command. The plan of a block contains them, and the conductor runs them. This
module uses only the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from records.arms import Role, arm_of
from records.sample import Direction, Level


@dataclass(frozen=True, kw_only=True)
class Writes:
    """What the writers do, or what the control does in their place."""

    #: Name of the injector (the program that writes). Injectors that read, and controls, have names
    #: of their own.
    injector: str
    #: Size of one write, bytes.
    message_b: int
    direction: Direction = "write"
    #: Requested rate of each writer, in bytes per second or as a share of its uncontended full
    #: rate. Both are None at full rate.
    rate_b_s: float | None = None
    rate_share: float | None = None
    #: RDMA devices or network interfaces, assigned to the writers round-robin; empty leaves the
    #: choice to the injector.
    devices: tuple[str, ...] = ()
    #: NUMA node that the buffers of both ends are bound to; None: they are not bound.
    buffer_node: int | None = None
    #: Number of concurrent writers under the block's timetable; it may be 0. None: writers write
    #: from before a run until after its end.
    scheduled: int | None = None
    #: Memory that each writer's messages pass through, bytes; None: the injector's default.
    footprint_b: int | None = None
    #: Writers to each target. None: as many writers in all as there are targets or origins,
    #: whichever is more.
    clients: int | None = None
    #: Queue pairs of each writer. None: queue pairs are added until they no longer raise the
    #: uncontended rate.
    queue_pairs: int | None = 1
    #: Further options for both ends of the program.
    options: tuple[str, ...] = ()

    @property
    def throttled(self) -> bool:
        """Return whether a rate below full is requested."""
        return self.rate_b_s is not None or self.rate_share is not None

    @property
    def has_timetable(self) -> bool:
        """Return whether writers follow the block's timetable, even if their number is 0."""
        return self.scheduled is not None

    def at_full_rate(self) -> Writes:
        """The same writes at full rate."""
        return replace(self, rate_b_s=None, rate_share=None)

    def requested_rate_b_s(self, full_b_s: float | None) -> float | None:
        """Requested rate, bytes per second; None: full rate. `full_b_s`: uncontended full rate.

        If `full_b_s` is None, a rate that is requested as a share is unknown and also gives None.
        """
        if self.rate_share is None or full_b_s is None:
            return self.rate_b_s
        return self.rate_share * full_b_s


@dataclass(frozen=True, kw_only=True)
class Start:
    """How the application is started: its command, and where and with what it runs."""

    #: The whole command line, launcher and wrapping tool included. These are replaced: `{targets}`
    #: by the target nodes, `{n_targets}` by their number, `{slots}` by `node:ranks,...` for mpirun,
    #: and `{counters}` by the folder into which a tool writes the files of this run.
    command: list[str]
    #: Variables added to its environment.
    environment: dict[str, str] = field(default_factory=dict)
    #: CPUs that it is pinned to if origin and target share a host; empty: it is not pinned.
    cpus: list[int] = field(default_factory=list)
    #: Number of ranks; None if it is not started by an MPI launcher.
    ranks: int | None = None
    ranks_per_node: int = 1
    threads: int = 1
    #: RDMA devices that its messages between nodes must pass; empty leaves the choice to MPI.
    devices: list[str] = field(default_factory=list)
    #: Name of the tool that wraps every rank (`reframe_tests/tools/`), if any.
    tool: str | None = None
    #: Memory that each rank works in, bytes (`Sample.working_set_b`).
    working_set_b: float | None = None


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """One arm at one level of each factor."""

    #: Name, which is unique in its block: the arm, and the levels that are not the first of their
    #: factors (`on@rate=25%`).
    name: str
    #: How the application is started; empty until the check has decided it.
    start: Start = Start(command=[])
    #: What writers or a control do; None if neither runs.
    writes: Writes | None = None
    role: Role = "baseline"
    #: Name of the treatment that this treatment is paired with; None for a baseline.
    baseline: str | None = None
    factors: dict[str, Level] = field(default_factory=dict)
    #: Caveats for its samples only.
    notes: list[str] = field(default_factory=list)
    #: How the application is started for runs that are 2, 4, 8, ... times as long; empty if the
    #: check cannot lengthen its runs.
    longer: list[Start] = field(default_factory=list)

    def start_of(self, doublings: int) -> Start:
        """Return how the application is started if its length is doubled `doublings` times."""
        return [self.start, *self.longer][doublings]

    @property
    def arm(self) -> str:
        """Return the name of the standard arm: `on` for `on@rate=25%`; empty for any other arm."""
        return arm_of(self.name).name
