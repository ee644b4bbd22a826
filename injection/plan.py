"""The block's plan: what the conductor is told, as JSON, when it starts on the first node."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from injection.timetable import Policy

#: Where origins come from: the target's own cores, the last nodes of the allocation, the second
#: component of a heterogeneous job, or nodes that a reservation holds (also a second component).
OriginPolicy = Literal["same_host", "same_job", "hetjob", "reservation"]

#: What an arm puts beside the application: nothing, the asked injector, or a control by name.
ARMS: dict[str, str | None] = {
    "off": None,
    "aa": None,
    "on": "",
    "full": "",
    "daly": "",
    "constant": "",
    "spin": "spin",
}
#: Arms of short writes under a timetable. All others write from before a run to after its end.
TIMED_ARMS = ("daly", "constant")


@dataclass(frozen=True)
class Demand:
    """What must hold for a run to count."""

    #: Least share of its rate alone at which every writer must write through the whole window.
    min_share: float = 0.5
    #: Largest share by which the bytes that a target's device counted may differ from the claim.
    counter_share: float = 0.2
    #: A report later than this many of its intervals means that the writer stood still.
    late_rows: float = 3.0
    #: How often a run that does not count is repeated.
    retries: int = 2
    #: How long writers may take until they are at speed, and the application to end, seconds.
    ready_timeout_s: float = 30.0
    run_timeout_s: float = 3600.0


@dataclass(frozen=True)
class ShortWrites:
    """What the arms of `TIMED_ARMS` write: so many writers always at work, each for so long."""

    #: Arm -> writers at work at a time.
    writers: dict[str, int]
    #: Length of a write at the rate that a writer reaches alone, seconds.
    length_s: float = 1.0
    #: Messages of a write; None takes as many as last the share `fill` of that.
    messages: int | None = None
    fill: float = 1.0
    policy: Policy = "sweep"
    #: Rate of an origin's link, and the share of it that writers may take. Where it is not known,
    #: writers are dealt out evenly.
    link_b_s: float | None = None
    link_share: float = 1.0
    #: How late or early a write may start or end, seconds, and the share of the planned writing
    #: that may be missing or be beyond the plan, before the run is rejected.
    tolerance_s: float = 0.2
    allowed_share: float = 0.1


@dataclass(frozen=True)
class BlockPlan:
    """The pairs of one allocation."""

    case: str
    workload: str
    block: int
    seed: int
    arms: list[str]
    pairs: int
    #: Runs of the `off` arm that come first and are thrown away.
    warmups: int
    #: Folder of the run (`analysis.run`) and of this block's logs.
    nimc_dir: str
    #: The application. `{targets}`, `{n_targets}` and `{slots}` stand for the target nodes, their
    #: number, and `node:ranks,...` as mpirun takes them.
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    ranks_per_node: int = 1
    #: All ranks of the application; None where it is not started by an MPI launcher.
    ranks: int | None = None
    #: Cores of the application and of the origin where they share a host; empty leaves both alone.
    app_cpus: list[int] = field(default_factory=list)
    origin_cpus: list[int] = field(default_factory=list)
    origin_policy: OriginPolicy = "same_host"
    n_origins: int = 1
    injector: str = "ucx"
    message_b: int = 65536
    rate_b_s: float | None = None
    #: RDMA device or network interface of the writers, and the interface the agents speak over.
    device: str | None = None
    interface: str | None = None
    #: NUMA node that the writers' buffers are bound to, on both ends; None leaves them alone.
    comm_node: int | None = None
    #: How agents are started on the nodes of one component; empty starts one on this host.
    agent_launcher: list[str] = field(default_factory=list)
    demand: Demand = field(default_factory=Demand)
    #: None where no arm needs it.
    short: ShortWrites | None = None
    #: Caveats to put on every sample, and facts to put into its provenance.
    notes: list[str] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    #: Process without which the block must not go on (ReFrame, where it runs jobs itself).
    owner_pid: int | None = None

    def save(self, path: Path) -> None:
        """Write the plan as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @staticmethod
    def load(path: Path) -> BlockPlan:
        """Read what `save` wrote."""
        record = json.loads(path.read_text())
        short = ShortWrites(**record["short"]) if record.get("short") else None
        return BlockPlan(**{**record, "demand": Demand(**record["demand"]), "short": short})

    def order(self, pair: int) -> list[str]:
        """The arms of a pair in their random order; the same for the same seed."""
        arms = list(self.arms)
        random.Random(f"{self.seed}/{self.case}/{self.block}/{pair}").shuffle(arms)
        return arms

    def injector_of(self, arm: str) -> str | None:
        """Name of the injector that runs in an arm; None where nothing does."""
        return self.injector if ARMS[arm] == "" else ARMS[arm]

    def timed_writers(self, arm: str) -> int | None:
        """Writers at work at a time under a timetable; None where the arm has none."""
        return self.short.writers[arm] if self.short and arm in TIMED_ARMS else None
