"""What a plan expects: load and slowdown of each scale. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.simulate.campaign import run
from analysis.simulate.progress import Application, rank_slowdowns
from analysis.statistics.aligned_ranks import pairs_needed
from nimc.campaign.cases import scheduled, short_writes
from nimc.campaign.schema import Campaign, Entry
from nimc.machine.site import Machine
from reframe_tests import scaling

#: Work of the simulated application, seconds; its slowdown has settled by then.
_SIMULATED_S = 25.0


@dataclass(frozen=True)
class Scale:
    """One arm of one scale; None where machine file and campaign do not give it."""

    case: str
    arm: str
    target_nodes: int
    origin_nodes: int
    #: Ranks for which the writers are computed, None if they are given; mean time to interrupt of
    #: each.
    counted: int | None
    mtti_s: float
    #: Concurrent writers, length of a write, and writes that begin in a second.
    writers: int
    write_s: float
    writes_per_s: float
    #: Bytes of one write, and of all writes of one run.
    write_b: float | None
    run_b: float | None
    #: Share of the busiest origin's link that its writers use during a write.
    link_share: float | None
    #: Simulated slowdown, and the pairs needed to detect it: the interval is as narrow as the
    #: campaign requests, or as the effect is large.
    slowdown_simulated: float | None
    pairs_needed: int | None


def scales(campaign: Campaign, machine: Machine) -> list[Scale]:
    """Every scale and arm of short writes. Raises InputError for what cannot be planned."""
    arms = scheduled(campaign.arms)
    return [_scale(campaign, entry, arm, machine) for entry in campaign.cases for arm in arms]


def _scale(campaign: Campaign, entry: Entry, arm: str, machine: Machine) -> Scale:
    requested = short_writes(campaign, entry)
    load = scaling.load(requested, machine)
    writers, nic, write_b = load.writers[arm], machine.nic, load.write_b
    busiest = -(-writers // max(load.origins, 1))
    slowdown = _slowdown(campaign, requested, writers, load.length_s, machine)
    model = campaign.simulate
    return Scale(
        case=entry.name,
        arm=arm,
        target_nodes=entry.nodes,
        origin_nodes=load.origins,
        counted=None if f"{arm}:" in requested.writers else load.counted,
        mtti_s=load.mtti_s,
        writers=writers,
        write_s=load.length_s,
        writes_per_s=load.writes_per_s[arm],
        write_b=write_b,
        run_b=None if write_b is None else write_b * load.writes_per_s[arm] * entry.expect,
        link_share=None
        if nic is None or write_b is None
        else busiest * write_b / load.length_s / nic.link_rate_b_s,
        slowdown_simulated=slowdown,
        pairs_needed=_pairs(campaign, model.spread, slowdown - 1) if model and slowdown else None,
    )


def _slowdown(
    campaign: Campaign, asked: scaling.ScaleRequest, writers: int, write_s: float, machine: Machine
) -> float | None:
    model = campaign.simulate
    if model is None:
        return None
    ranks = scaling.ranks_per_node(asked, machine.node_facts().cores)
    if writers == 0:
        return 1.0
    steps = max(round(_SIMULATED_S / model.step), 1)
    application = Application(asked.nodes * ranks, ranks, steps, model.step)
    slowdowns = rank_slowdowns(ranks, 1 + (model.worst - 1) / ranks, model.worst)
    return run(application, slowdowns, writers, write_s, campaign.seed, asked.draw).slowdown


def _pairs(campaign: Campaign, spread: float, loss: float) -> int | None:
    """Pairs whose interval is as narrow as the campaign requests, or as the loss is large."""
    narrow = min(campaign.pairs.precision or loss, loss)
    return pairs_needed(spread, narrow) if narrow > 0 else None
