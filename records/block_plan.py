"""The plan of a block, as JSON: all decisions that are made before the block starts.

A campaign writes the plan for the check. The check adds the layout of the application, and passes
the plan on to the conductor on the first node.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from records.acceptance import AcceptanceLimits
from records.files import replace_text
from records.order import pair_order
from records.sample import Level
from records.treatment import Treatment

#: Where origins come from: the target's own cores, the last nodes of the allocation, the second
#: component of a heterogeneous job, or nodes that a reservation holds (also as a second component).
OriginPolicy = Literal["same_host", "same_job", "hetjob", "reservation"]


#: Maximum number of nodes in an allocation; `bench/nodes.py` measures a block of this size.
MAX_NODES = 10_000


#: File beside the plan of a campaign's block: the reasons why the check skipped an environment of a
#: partition, a JSON list of lines.
SKIPPED_FILE = "skipped.json"


@dataclass(frozen=True)
class ShortWrites:
    """The short writes of scheduled treatments."""

    #: Length of each write, seconds. With `messages`, the expected length.
    length_s: float = 1.0
    #: Number of messages of a write. A write lasts as long as an uncontended writer needs for them.
    #: None: the number that an uncontended writer makes in `fill` times the length.
    messages: int | None = None
    #: Share of the length that the messages take without an application, if `messages` is None.
    fill: float = 1.0
    #: Largest deviation of the start or end of a write from its planned time, seconds. A run with a
    #: larger one is rejected.
    tolerance_s: float = 0.2
    #: Largest share of the planned writing that may be missing, or that may be written beyond the
    #: plan. A run with a larger share is rejected.
    allowed_share: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The short writes of a case with a given number of nodes, computed for one machine."""

    short: ShortWrites
    #: Ranks for which the writers are computed, and the mean time to interrupt of a rank, seconds.
    counted_ranks: int
    mtti_s: float
    #: Arm -> number of concurrent writers.
    writers: dict[str, int]
    #: Arms whose number of writers is given, not computed.
    given_arms: tuple[str, ...]
    #: Origin nodes; 0 if origin and target share a host.
    origins: int
    #: Rate of one writer: the requested rate or, if none is requested, a share of the link's rate;
    #: None if the link is unknown.
    writer_b_s: float | None
    #: Bytes of one write; None if its messages and the link are both unknown.
    write_b: float | None

    @property
    def writes_per_s(self) -> dict[str, float]:
        """Arm -> writes that start per second."""
        return {arm: count / self.short.length_s for arm, count in self.writers.items()}


#: File in the block's logs: samples whose figures of merit the check has yet to read.
UNREAD_FILE = "unread.jsonl"


@dataclass(frozen=True, kw_only=True)
class BlockPlan:
    """The plan of a block, which is the pairs of one allocation."""

    case: str
    workload: str
    block: int
    seed: int
    #: The treatments of a pair, one run each.
    treatments: list[Treatment]
    #: Pairs to measure. With 0, nothing is run: the check reads the outputs that an interrupted
    #: session of this block left unread.
    pairs: int
    #: Warm-up runs of the first baseline, which do not count. If the last one is too short for the
    #: writers' rows, runs are made longer and warmed up once more.
    warmups: int
    #: Folder of the run (`records.run`), which holds this block's `logs`.
    nimc_dir: str
    #: Cores of the origin if it shares a host with the target; empty: the origin is not pinned.
    origin_cpus: list[int] = field(default_factory=list)
    origin_policy: OriginPolicy = "same_host"
    n_origins: int = 1
    #: RDMA devices of a node, whose bytes are counted; empty if the machine's file lists none.
    rails: list[str] = field(default_factory=list)
    #: Rate of the link over which writers write, bytes per second; None if the site does not say.
    link_rate_b_s: float | None = None
    #: Network interface that the agents use.
    interface: str | None = None
    #: Command that launches the agents, one on each node; empty: one agent is started on this host.
    agent_launcher: list[str] = field(default_factory=list)
    limits: AcceptanceLimits = field(default_factory=AcceptanceLimits)
    #: Least time from the end of one run to the start of the next one, seconds.
    rest_s: float = 0.0
    #: True if the check itself reads the outputs after the block.
    read_by_check: bool = False
    #: Short writes of the scheduled treatments; None if no treatment is scheduled.
    short: ShortWrites | None = None
    #: Caveats for every sample, and facts for its provenance.
    notes: list[str] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    #: The application's program, which the conductor describes on the first node; None if unknown.
    program: str | None = None
    #: Modules that the job requests. If one of them is missing, nothing is run.
    modules: list[str] = field(default_factory=list)
    #: Variable of the check that makes runs longer; empty if the check has no such variable.
    lengthened_by: str = ""
    #: Process whose end stops the block (ReFrame, if it runs jobs itself).
    owner_pid: int | None = None
    #: Variables of the check that a campaign sets, with the case's levels among them.
    settings: dict[str, Level] = field(default_factory=dict)
    #: Target nodes that the job is pinned to, joined with commas; empty: any.
    nodelist: str = ""
    #: Folder in which a user's own command starts; empty: the check's folder. Samples do not
    #: contain it.
    folder: str = ""
    #: Unit and direction of the figure of merit if the user chooses them; empty: those of the
    #: workload.
    fom_unit: str = ""
    fom_better: Literal["", "lower", "higher"] = ""

    def save(self, path: Path) -> None:
        """Write the plan as JSON."""
        replace_text(path, json.dumps(asdict(self), indent=1))

    @staticmethod
    def load(path: Path) -> BlockPlan:
        """Read what `save` wrote."""
        from pydantic import TypeAdapter  # agents do not read plans

        return TypeAdapter(BlockPlan).validate_json(path.read_bytes())

    @property
    def logs(self) -> Path:
        """Folder of this block's logs."""
        return Path(self.nimc_dir) / "logs" / self.case / str(self.block)

    @property
    def baseline(self) -> Treatment:
        """The first baseline, which warm-ups run."""
        return next(treatment for treatment in self.treatments if treatment.role == "baseline")

    def order(self, pair: int) -> list[Treatment]:
        """The treatments of a pair in the order of their runs; `pair` is its number in the case."""
        treatments = {treatment.name: treatment for treatment in self.treatments}
        baselines = {treatment.name: treatment.baseline for treatment in self.treatments}
        names = pair_order(baselines, self.seed, self.case, pair)
        return [treatments[name] for name in names]
