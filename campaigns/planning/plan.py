"""From a campaign and a machine to cases, blocks and ReFrame commands. Pure: runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from campaigns.planning import sweep
from campaigns.request.schema import Campaign, Entry, Pairs

#: Stands in a planned command for the folder of a run that has no name yet.
RUN = "$RUN"
#: What a block costs beside its runs: ReFrame's start, the build, the writers' rate alone; seconds.
_BLOCK_S = 8.0
#: What a run costs beside the application's time: conductor, writers' ramp; seconds.
_RUN_S = 0.2
_RAMP_S = 2.0
#: Runs of a block that are thrown away (`warmups` of the mixin).
_WARMUPS = 1
#: Arms in which nothing is started beside the application.
_QUIET_ARMS = ("off", "aa")


#: When a block is run: always, until the interval is as narrow as the campaign asks, or where the
#: models of a sweep's other cases disagree.
Needed = Literal["always", "until precise", "where models disagree"]


@dataclass(frozen=True)
class Site:
    """What the plan needs to know of a machine."""

    machine: str
    #: ReFrame's settings file, and the folder of the checks.
    config: Path
    checks: Path
    #: Nodes of the writers of one block; 0 on a shared host.
    origin_nodes: int
    #: ReFrame's partition of the targets; None takes the first that can run a check.
    partition: str | None = None
    #: Whether Slurm runs the jobs, and after how long they are ended; None: not told.
    slurm: bool = False
    time_limit_s: float | None = None


@dataclass(frozen=True)
class Block:
    """The pairs of one allocation."""

    block: int
    pairs: int
    needed: Needed
    duration_s: float
    command: list[str]


@dataclass(frozen=True)
class Case:
    """One workload with its settings, measured until it is known well enough."""

    case: str
    workload: str
    arms: list[str]
    target_nodes: int
    origin_nodes: int
    pairs_least: int
    pairs_most: int
    duration_least_s: float
    duration_most_s: float
    #: Whether the most that the campaign takes counts it: a sweep of few cores leaves others out.
    counts: bool
    blocks: list[Block]

    @property
    def nodes(self) -> int:
        """Nodes of one of its allocations."""
        return self.target_nodes + self.origin_nodes


@dataclass(frozen=True)
class Plan:
    """Everything that a campaign asks of a machine."""

    campaign: str
    machine: str
    cases: list[Case]

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON holds it, with its sums."""
        least = sum(case.nodes * case.duration_least_s for case in self.cases) / 3600
        counted = [case for case in self.cases if case.counts]
        most = sum(case.nodes * case.duration_most_s for case in counted) / 3600
        return asdict(self) | {
            "duration_least_s": sum(case.duration_least_s for case in self.cases),
            "duration_most_s": sum(case.duration_most_s for case in counted),
            "node_hours_least": least,
            "node_hours_most": most,
        }


def plan(campaign: Campaign, site: Site, origins: Mapping[str, int] | None = None) -> Plan:
    """The cases of a campaign on a machine, in the order in which they are run.

    `origins` has the origin nodes of cases that do not take the machine's.
    """

    def of(entry: Entry) -> Site:
        known = (origins or {}).get(entry.name, site.origin_nodes)
        return replace(site, origin_nodes=known)

    cases = [plan_case(campaign, entry, of(entry)) for entry in campaign.cases]
    return Plan(campaign.name, site.machine, cases)


def plan_case(campaign: Campaign, entry: Entry, site: Site) -> Case:
    """One case with all the blocks that it may take."""
    sizes = block_sizes(campaign.pairs)
    chosen = sweep.is_chosen(entry, campaign.cases)
    blocks = []
    planned = 0
    for index, size in enumerate(sizes):
        needed: Needed = "always" if planned < campaign.pairs.floor else "until precise"
        if chosen:
            needed = "where models disagree"
        argv = command(campaign, entry, site, index, size, RUN)
        blocks.append(Block(index, size, needed, block_s(campaign, entry, size), argv))
        planned += size
    return Case(
        case=entry.name,
        workload=entry.check,
        arms=campaign.arms,
        target_nodes=entry.nodes,
        origin_nodes=site.origin_nodes,
        pairs_least=0 if chosen else campaign.pairs.floor,
        pairs_most=campaign.pairs.most,
        duration_least_s=sum(b.duration_s for b in blocks if b.needed == "always"),
        duration_most_s=sum(b.duration_s for b in blocks),
        counts=not chosen or entry in sweep.most(entry, campaign.cases),
        blocks=blocks,
    )


def block_sizes(pairs: Pairs) -> list[int]:
    """Pairs of each block of a case that is measured as often as its cap allows."""
    sizes: list[int] = []
    while size := next_block(sum(sizes), pairs, precise=False):
        sizes.append(size)
    return sizes


def next_block(done: int, pairs: Pairs, *, precise: bool) -> int:
    """Pairs of the next block when `done` pairs are complete; 0 when no more are needed."""
    if done < pairs.floor:
        return min(pairs.block_size, pairs.floor - done)
    return 0 if precise else max(0, min(pairs.block_size, pairs.most - done))


def run_s(arm: str, entry: Entry) -> float:
    """Expected length of one run with all that belongs to it, seconds."""
    return entry.expect + _RUN_S + (0.0 if arm in _QUIET_ARMS else _RAMP_S)


def block_s(campaign: Campaign, entry: Entry, pairs: int) -> float:
    """Expected length of a block, seconds."""
    pair_s = sum(run_s(arm, entry) for arm in campaign.arms)
    return _BLOCK_S + _WARMUPS * run_s("off", entry) + pairs * pair_s


def command(
    campaign: Campaign, entry: Entry, site: Site, block: int, pairs: int, run: str
) -> list[str]:
    """The ReFrame session of one block; its output goes to the block's folder in `run`."""
    logs = f"{run}/logs/{entry.name}/{block}"
    settings: dict[str, Any] = {
        **entry.set,
        "nimc_dir": run,
        "case": entry.name,
        "block": block,
        "pairs": pairs,
        "arms": ",".join(campaign.arms),
        "seed": campaign.seed,
        "injector": campaign.injector.name,
        "message": campaign.injector.message,
        "rate": campaign.injector.rate,
        "min_share": campaign.verify.min_share,
        "retries": campaign.verify.retries,
        "run_timeout_s": campaign.run_timeout,
    }
    return [
        *("reframe", "-C", str(site.config), f"--system={_system(site)}"),
        *("-c", str(site.checks / f"{entry.check}.py")),
        *("-r", "-n", f"^{entry.check}$"),
        *(f"--prefix={logs}/reframe", f"--report-file={logs}/reframe.json"),
        *_assignments(entry.check, settings),
    ]


def _system(site: Site) -> str:
    return f"{site.machine}:{site.partition}" if site.partition else site.machine


def _assignments(check: str, settings: dict[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        yield from ("-S", f"{check}.{name}={_text(value)}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
