"""A treatment: everything that a run of the application is under, as one record.

The mixin makes treatments (`reframe_tests/crossing.py` names them, a check lays them out), the plan
of a block carries them, and the conductor runs them. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from analysis.arms import Role, arm_of
from analysis.sample import Direction, Level


@dataclass(frozen=True)
class Writes:
    """What writers do, or the control in their place."""

    #: Name of the injector; one that reads, or writes nothing, has a name of its own.
    injector: str
    #: Size of one write, bytes.
    message_b: int
    direction: Direction = "write"
    #: Rate of each writer: bytes per second, or a share of the rate that it reaches alone at full
    #: rate; both None is full rate.
    rate_b_s: float | None = None
    rate_share: float | None = None
    #: RDMA devices or network interfaces, taken by the writers in turn; empty is the injector's
    #: own choice.
    devices: tuple[str, ...] = ()
    #: NUMA node that the buffers of both ends are bound to; None leaves them alone.
    buffer_node: int | None = None
    #: Writers at work at a time under the block's timetable; None writes from before a run to
    #: after its end.
    scheduled: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "devices", tuple(self.devices))  # JSON has lists

    @property
    def throttled(self) -> bool:
        """Whether a rate below full is asked for."""
        return self.rate_b_s is not None or self.rate_share is not None

    def at_full_rate(self) -> Writes:
        """The same writes, not throttled."""
        return replace(self, rate_b_s=None, rate_share=None)

    def asked_b_s(self, full_b_s: float | None) -> float | None:
        """Rate of a writer that reaches `full_b_s` alone, bytes per second; None is full rate."""
        if self.rate_share is None or full_b_s is None:
            return self.rate_b_s
        return self.rate_share * full_b_s


@dataclass(frozen=True)
class Start:
    """How the application is started."""

    #: The whole command line, launcher and wrapping tool included. `{targets}`, `{n_targets}` and
    #: `{slots}` stand for the target nodes, their number, and `node:ranks,...` as mpirun takes
    #: them; `{counters}` for the folder that a tool writes this run's files to.
    command: list[str]
    #: What is added to its environment.
    environment: dict[str, str] = field(default_factory=dict)
    #: CPUs that it is held to where origin and target share a host; empty leaves it alone.
    cpus: list[int] = field(default_factory=list)
    #: All ranks; None where it is not started by an MPI launcher.
    ranks: int | None = None
    ranks_per_node: int = 1
    threads: int = 1
    #: Name of the tool that wraps every rank (`reframe_tests/tools/`); None is none.
    tool: str | None = None


@dataclass(frozen=True)
class Treatment:
    """One arm at one level of each factor."""

    #: Unique in its block: an arm, and what differs from its first levels (`on@rate=25%`).
    name: str
    start: Start
    #: None where nothing is started beside the application.
    writes: Writes | None = None
    role: Role = "baseline"
    #: Name of the treatment that it is paired with; None for one that others are paired with.
    baseline: str | None = None
    factors: dict[str, Level] = field(default_factory=dict)
    #: Caveats that belong on its samples alone.
    notes: list[str] = field(default_factory=list)

    @property
    def arm(self) -> str:
        """The arm that it is of: `on` for `on@rate=25%`."""
        return arm_of(self.name).name

    @staticmethod
    def from_dict(record: dict[str, Any]) -> Treatment:
        """Read what `dataclasses.asdict` made of one."""
        writes = Writes(**record["writes"]) if record["writes"] else None
        return Treatment(**{**record, "start": Start(**record["start"]), "writes": writes})
