"""From entries to the cases of a machine: a case for each level that cannot change within a block.

Also the cases of a sweep, the nodes that a case needs, and what the machine cannot run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from nimc.campaign.checks import CheckVariables
from records.arms import level_text, standard_arms
from records.campaign import Campaign, Entry
from records.errors import InputError
from records.machine.site import Machine
from records.sample import Level
from records.treatment import Replay, Treatment
from reframe_tests import scaling
from reframe_tests.crossing import Cell, cross
from reframe_tests.factors import lacking
from reframe_tests.planning import CHOSEN_BY_MACHINE, CaseRequest

#: Characters that are not allowed in the name of a case, which names files.
_UNSAFE = re.compile(r"[^A-Za-z0-9._@+%=,-]")


def scheduled(arms: Sequence[str]) -> list[str]:
    """The arms whose writers follow a timetable."""
    return [arm for arm in arms if arm in scaling.SCHEDULED]


def expand(campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine) -> Campaign:
    """The campaign with cases as entries, each with the factors it is crossed with. InputError."""
    requested: list[Campaign | Entry] = [campaign, *campaign.workloads]
    cases = [
        case
        for entry in campaign.workloads
        for levels in cases_of(campaign, entry, checks[entry.check])
        for case in swept(levels, machine)
    ]
    changes: dict[str, Any] = {"workloads": cases}
    if any(each.factors or each.exclude or each.only for each in requested):
        same_host = machine.origins.policy == "same_host"
        arms = campaign.arms or standard_arms(same_host=same_host)
        changes |= {"arms": arms, "factors": {}, "exclude": [], "only": []}
    return campaign.model_copy(update=changes)


def factors_of(campaign: Campaign, entry: Entry) -> dict[str, list[Level]]:
    """All factors of an entry; its own levels override the campaign's."""
    return {**campaign.factors, **entry.factors}


def cases_of(campaign: Campaign, entry: Entry, check: CheckVariables) -> list[Entry]:
    """The entry once for each combination of levels that cannot change within a block."""
    factors = factors_of(campaign, entry)
    exclude, only = [*campaign.exclude, *entry.exclude], [*campaign.only, *entry.only]
    if not (factors or exclude or only):
        return [entry]
    within = {name: each for name, each in factors.items() if check.changes_within(name)}
    between = {name: each for name, each in factors.items() if name not in within}
    found = []
    for combination in product(*between.values()):
        levels = dict(zip(between, combination, strict=True))
        without, kept = _remaining(exclude, levels), _remaining(only, levels)
        if {} in without or (only and not kept):
            continue
        words = (  # `lammps@4`: that of nodes without its name
            level_text(level) if name == "nodes" else f"{name}={level_text(level)}"
            for name, level in levels.items()
        )
        case = entry.at(_UNSAFE.sub("_", ",".join(words)), levels) if levels else entry
        cells = {"exclude": without, "only": [] if {} in kept else kept}
        found.append(case.but({"factors": within, **cells}))
    return found


def _remaining(cells: Sequence[Cell], levels: Mapping[str, Level]) -> list[dict[str, Level]]:
    """The rest of each cell that matches these levels of a case; other cells are dropped."""
    return [
        {name: level for name, level in cell.items() if name not in levels}
        for cell in cells
        if all(cell.get(name, level) == level for name, level in levels.items())
    ]


def requested(
    campaign: Campaign, case: Entry, check: CheckVariables, replay: Replay | None = None
) -> CaseRequest:
    """What a case asks of its check."""
    chosen = campaign.injector
    settings = {
        name: check.typed(name, value) for name, value in case.set.items() if name in check.levels
    }
    return CaseRequest(
        arms=campaign.arms,
        levels={
            **check.levels,
            **settings,
            **{"injector": chosen.name, "message": chosen.message, "rate": chosen.rate},
        },
        factors=case.factors,
        exclude=case.exclude,
        only=case.only,
        replay=replay,
    )


def treatments(arms: Sequence[str], case: Entry) -> list[Treatment]:
    """The treatments of a pair. Raises InputError if nothing is left to compare."""
    found = cross(arms, case.factors, case.exclude, case.only)
    if all(each.baseline is None for each in found):
        raise InputError("exclude, only: no treatment is left; allowed: some of them")
    return found


# Sweeps of the contention model (Denis, Jeannot and Swartvagher): numbers of computing cores on
# placements, as cases. A placement is a pair of NUMA nodes: one for the computation's data, one for
# the communication's buffers.


def swept(entry: Entry, machine: Machine) -> list[Entry]:
    """The entry, or with a sweep once for each number of cores and placement. Raises InputError."""
    if entry.sweep is None:
        return [entry]
    facts = machine.node_facts()
    app_cpus, _ = machine.split_cpus()
    most = max(1, (len(app_cpus) or facts.cores) // facts.sockets)
    if entry.set.get("socket") == "all":
        most *= facts.sockets
    numbers = list(range(1, most + 1))
    if entry.sweep.cores == "doubled":
        numbers = [*(1 << power for power in range((most - 1).bit_length())), most]
    return [
        entry.at(f"n{n}-c{comp}-m{comm}", {"cores": n, "node": comp, "comm_node": comm})
        for comp, comm in placements(machine, entry.sweep.placements)
        for n in numbers
    ]


def placements(machine: Machine, requested: str) -> list[tuple[int, int]]:
    """Pairs of NUMA nodes: `all`; `calibration`: both on the first node of a socket, of the first
    two sockets; `local`: of the first socket only.

    Those two always come first, so that a run that is stopped can still be fitted.
    """
    facts = machine.node_facts()
    of_sockets = facts.numa_nodes[:: facts.nodes_a_socket][:2]
    first = [(node, node) for node in of_sockets]
    if requested == "local":
        return first[:1]
    if requested == "calibration":
        return first
    nodes = facts.nodes_of_memory()
    return list(dict.fromkeys([*first, *product(nodes, nodes)]))


def siblings(entry: Entry, cases: Sequence[Entry]) -> list[Entry]:
    """All cases of an adaptive case's placement, from the fewest cores to the most."""
    same = (each for each in cases if each.adaptive and _placement(each) == _placement(entry))
    return sorted(same, key=lambda each: each.set["cores"])


def is_optional(entry: Entry, cases: Sequence[Entry]) -> bool:
    """Whether a case may be skipped; those with the fewest and the most cores may not."""
    if not entry.adaptive:
        return False
    same = siblings(entry, cases)
    return entry.name not in (same[0].name, same[-1].name)


def most_measured(entry: Entry, cases: Sequence[Entry]) -> list[Entry]:
    """As many of an adaptive case's siblings as may be measured; all cost the same."""
    from analysis.contention.fit import points_allowed  # fitting takes a second to load

    same = siblings(entry, cases)
    return [same[-1], *same[: points_allowed(same[-1].set["cores"]) - 1]]


def next_case(run: Path, same: Sequence[Entry], begun: Sequence[Entry]) -> Entry | None:
    """The case to measure next of a placement's, `same`; None if its model is good enough.

    `begun`: those that were measured or failed.
    """
    from analysis.contention.fit import next_n, points_allowed
    from analysis.contention.sweep import from_run

    if not begun:
        return same[0]
    try:
        points = from_run(run, None).at(same[0].set["node"], same[0].set["comm_node"])
    except InputError:  # no accepted sample; the failure has been reported
        return None
    cores = same[-1].set["cores"]
    n = next_n(points, cores, points_allowed(cores))
    return next((each for each in same if each.set["cores"] == n and each not in begun), None)


def _placement(entry: Entry) -> tuple[str, object, object]:
    return entry.name.rpartition("@")[0], entry.set["node"], entry.set["comm_node"]


# How many nodes a case needs on a machine.


def short_writes(campaign: Campaign, entry: Entry) -> scaling.ScaleRequest:
    """A case's request for short writes: its settings, and the campaign's rate and message."""
    chosen = {"rate": campaign.injector.rate, "message": campaign.injector.message}
    return scaling.request_of({**entry.set, **chosen})


@dataclass(frozen=True)
class Scale:
    """One arm of one scale; None if machine file and campaign do not give it."""

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


def scales(campaign: Campaign, machine: Machine) -> Iterator[Scale]:
    """Every scale and arm of short writes. Raises InputError for what cannot be planned."""
    for entry, arm in product(campaign.cases, scheduled(campaign.arms)):
        requested = short_writes(campaign, entry)
        load = scaling.load(requested, machine)
        write_b, per_s = load.write_b, load.writes_per_s[arm]
        link_b_s = machine.nic.link_rate_b_s if machine.nic else None
        busiest = -(-load.writers[arm] // max(load.origins, 1))
        yield Scale(
            case=entry.name,
            arm=arm,
            target_nodes=entry.nodes,
            origin_nodes=load.origins,
            counted=None if f"{arm}:" in requested.writers else load.counted,
            mtti_s=load.mtti_s,
            writers=load.writers[arm],
            write_s=load.short.length_s,
            writes_per_s=per_s,
            write_b=write_b,
            run_b=write_b and write_b * per_s * entry.expect,
            link_share=write_b and link_b_s and busiest * write_b / load.short.length_s / link_b_s,
        )


def origins_taken(campaign: Campaign, entry: Entry, machine: Machine) -> int:
    """Origin nodes of an allocation; 0 on a shared host. Raises InputError as `nodes_taken`."""
    if scheduled(campaign.arms):
        return scaling.load(short_writes(campaign, entry), machine).origins
    return 0 if machine.origins.policy == "same_host" else machine.origins.nodes


def nodes_taken(campaign: Campaign, entry: Entry, machine: Machine) -> int:
    """Target and origin nodes of an allocation. Raises InputError for impossible writes."""
    return entry.nodes + origins_taken(campaign, entry, machine)


# Cases and levels that a machine cannot run: left out before anything runs, with the reason.


@dataclass(frozen=True)
class Omitted:
    """A case that is not measured on this machine, or a level of one."""

    case: str
    #: One line.
    reason: str
    #: The level that the machine lacks; None where it lacks the whole case.
    factor: str | None = None
    level: Level | None = None


def leave_out(
    campaign: Campaign, machine: Machine, only: Sequence[str] = ()
) -> tuple[Campaign, list[Omitted]]:
    """The campaign without cases and levels that the machine cannot run, and a list of those.

    Of the cases that are left, `only` these if any is named. Raises InputError if no case is left.
    """
    left: list[Entry] = []
    absent: list[Omitted] = []
    for case in campaign.cases:
        kept, reasons = _keep(campaign, case, machine)
        left += [kept] if kept else []
        absent += reasons
    if not left:
        first = absent[0]
        raise InputError(f"{campaign.name}: no case is left: {first.case}: {first.reason}")
    known = [case.name for case in left]
    for name in only:
        if name not in known:
            raise InputError(f"--case: {name!r} found; allowed: {', '.join(known)}")
    named = [case for case in left if case.name in only] or left
    return campaign.model_copy(update={"workloads": named}), absent


def _keep(campaign: Campaign, case: Entry, machine: Machine) -> tuple[Entry | None, list[Omitted]]:
    """A case with the levels that the machine has; None if none is left."""
    most = machine.nodes
    if most is not None and nodes_taken(campaign, case, machine) > most:
        reason = f"more nodes with its origins than the {most} of site/{machine.name}.yaml"
        return None, [Omitted(case.name, reason)]
    for name, level in case.set.items():
        if level != CHOSEN_BY_MACHINE.get(name) and (lacks := lacking(machine, name, level)):
            return None, [Omitted(case.name, lacks)]
    absent = [
        Omitted(case.name, lacks, name, level)
        for name, levels in case.factors.items()
        for level in levels
        if (lacks := lacking(machine, name, level))
    ]
    if not absent:
        return case, []
    left_out = [(each.factor, each.level) for each in absent]
    factors = {
        name: [level for level in levels if (name, level) not in left_out]
        for name, levels in case.factors.items()
    }
    kept = case.but({"factors": factors})
    with suppress(InputError):  # `exclude` and `only` may remove the rest
        if all(factors.values()) and treatments(campaign.arms, kept):
            return kept, absent
    return None, [Omitted(case.name, absent[0].reason)]


def omission_lines(absent: Sequence[Omitted]) -> list[str]:
    """A line for each reason, with the cases and levels it applies to."""
    found: dict[str, list[str]] = {}
    for each in absent:
        level = "" if each.level is None else f" {each.factor}={level_text(each.level)}"
        found.setdefault(each.reason, []).append(f"{each.case}{level}")
    return [f"left out ({reason}): {', '.join(what)}" for reason, what in found.items()]
