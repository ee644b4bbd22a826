"""The plan of a block: the conductor's input, as JSON, when it starts on the first node."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from analysis.order import pair_order
from injection.timetable import Policy
from injection.treatment import Treatment

#: Where origins come from: the target's own cores, the last nodes of the allocation, the second
#: component of a heterogeneous job, or nodes that a reservation holds (also a second component).
OriginPolicy = Literal["same_host", "same_job", "hetjob", "reservation"]


@dataclass(frozen=True)
class Demand:
    """Requirements for a run to be accepted."""

    #: Least share of its rate alone that every writer must reach through the whole window.
    min_share: float = 0.5
    #: Largest share by which the bytes that a target's device counted may differ from the claim.
    counter_share: float = 0.2
    #: A report later than this many of its intervals means that the writer stalled.
    late_rows: float = 3.0
    #: How often a rejected run is repeated.
    retries: int = 2
    #: Time limits until writers are at speed, and for the application, seconds.
    ready_timeout_s: float = 30.0
    run_timeout_s: float = 3600.0


@dataclass(frozen=True)
class ShortWrites:
    """The short writes of scheduled treatments."""

    #: Length of each write at the rate that a writer reaches alone, seconds.
    length_s: float = 1.0
    #: Messages of a write; None takes as many as last `fill` times that length.
    messages: int | None = None
    fill: float = 1.0
    policy: Policy = "sweep"
    #: Rate of an origin's link, and the share of it that writers may take. If the rate is unknown,
    #: writers are distributed evenly.
    link_b_s: float | None = None
    link_share: float = 1.0
    #: How late or early a write may start or end, seconds, and the share of the planned writing
    #: that may be missing or beyond the plan; more rejects the run.
    tolerance_s: float = 0.2
    allowed_share: float = 0.1


@dataclass(frozen=True)
class BlockPlan:
    """The pairs of one allocation."""

    case: str
    workload: str
    block: int
    seed: int
    #: The treatments of a pair, one run each.
    treatments: list[Treatment]
    pairs: int
    #: Warm-up runs of the first baseline, which are not counted.
    warmups: int
    #: Folder of the run (`analysis.run`), which holds this block's logs.
    nimc_dir: str
    #: Cores of the origin if it shares a host with the target; empty does not pin it.
    origin_cpus: list[int] = field(default_factory=list)
    origin_policy: OriginPolicy = "same_host"
    n_origins: int = 1
    #: Network interface that the agents use.
    interface: str | None = None
    #: Launcher of the agents; empty starts one on this host.
    agent_launcher: list[str] = field(default_factory=list)
    demand: Demand = field(default_factory=Demand)
    #: Whether the check itself reads the outputs after the block.
    read_by_check: bool = False
    #: None if no treatment is scheduled.
    short: ShortWrites | None = None
    #: Caveats to put on every sample, and facts to put into its provenance.
    notes: list[str] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    #: Process whose end stops the block (ReFrame, if it runs jobs itself).
    owner_pid: int | None = None

    def save(self, path: Path) -> None:
        """Write the plan as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @staticmethod
    def load(path: Path) -> BlockPlan:
        """Read what `save` wrote."""
        record = json.loads(path.read_text())
        record["treatments"] = [Treatment.from_dict(each) for each in record["treatments"]]
        record["demand"] = Demand(**record["demand"])
        if record["short"]:
            record["short"] = ShortWrites(**record["short"])
        return BlockPlan(**record)

    @property
    def baseline(self) -> Treatment:
        """The first baseline, which warm-ups run."""
        return next(each for each in self.treatments if each.role == "baseline")

    def order(self, pair: int) -> list[Treatment]:
        """The treatments of a pair in the order of their runs; see `analysis.order`."""
        named = {each.name: each for each in self.treatments}
        baselines = {each.name: each.baseline for each in self.treatments}
        names = pair_order(baselines, self.seed, self.case, self.block, pair)
        return [named[name] for name in names]
