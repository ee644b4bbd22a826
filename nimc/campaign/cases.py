"""Turns entries into cases: one for each level that cannot change within a block.

This module also makes the cases of a sweep, says how many nodes and which length of run cases need,
and leaves out cases and levels that a machine cannot run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product

from conductor.injectors import INJECTORS
from conductor.judge.length import LEAST_ROWS
from nimc.readiness.checks import CheckDescription
from nimc.readiness.diagnosis import OmittedCase
from records.arms import ARMS, level_text, standard_arms
from records.block_plan import MAX_NODES
from records.campaign import Campaign, Entry
from records.errors import InputError
from records.groups import grouped
from records.machine.site import Machine
from records.sample import Level
from records.treatment import Treatment
from reframe_tests.crossing import Cell, cross
from reframe_tests.factors import DEFAULT_RESERVED_CORES, app_cores, why_unsupported
from reframe_tests.planning import CHOSEN_BY_MACHINE, CaseRequest, resolved_scale

#: How many numbers of cores a sweep with `cores: few` measures.
_FEW_CORE_COUNTS = 8
#: Characters that are not allowed in the name of a case, which names files.
_UNSAFE_CHARACTER = re.compile(r"[^A-Za-z0-9._@+%=,-]")


def arms_of(campaign: Campaign, machine: Machine) -> list[str]:
    """The campaign's arms, or else the standard ones of the machine."""
    return campaign.arms or standard_arms(same_host=machine.origins.policy == "same_host")


#: Called for a case that is wrong: index of its entry, the key there (or empty), and the error.
OnError = Callable[[int, str, InputError], None]


def _raise(_entry: int, _key: str, error: InputError) -> None:
    raise error


def expand(
    campaign: Campaign,
    checks: Mapping[str, CheckDescription],
    machine: Machine,
    on_error: OnError = _raise,
) -> Campaign:
    """The campaign with its arms, and with cases in place of entries.

    A case has the factors that change within its blocks. The short writes of each case are resolved
    here, once. `on_error` is called for each wrong case, which is then left out. By default it
    raises the InputError.
    """
    campaign = campaign.model_copy(update={"arms": arms_of(campaign, machine)})
    cases = []
    for index, entry in enumerate(campaign.workloads):
        check = checks[entry.check]
        for case in cases_of(campaign, entry, check):
            if case.factors or case.exclude or case.only:
                try:
                    treatments(campaign.arms, case)
                except InputError as error:
                    on_error(index, "", InputError(f"{case.name}: {error}"))
                    continue
            try:
                resolved = resolved_scale(case_request(campaign, case, check), machine)
                scaled = case.with_scale(resolved)
                nodes_taken(scaled, machine)  # raises if they are too many
            except InputError as error:
                on_error(index, "set", error)
                continue
            cases += sweep_cases(scaled, machine)
    cases_alone = {"workloads": cases, "factors": {}, "exclude": [], "only": []}
    return campaign.model_copy(update=cases_alone)


def factors_of(campaign: Campaign, entry: Entry) -> dict[str, list[Level]]:
    """All factors of an entry; its own levels override the campaign's."""
    return {**campaign.factors, **entry.factors}


def cases_of(campaign: Campaign, entry: Entry, check: CheckDescription) -> list[Entry]:
    """The entry once for each combination of levels that cannot change within a block."""
    factors = factors_of(campaign, entry)
    exclude, only = [*campaign.exclude, *entry.exclude], [*campaign.only, *entry.only]
    if not (factors or exclude or only):
        return [entry]
    within = {name: levels for name, levels in factors.items() if check.changes_within(name)}
    between = {name: levels for name, levels in factors.items() if name not in within}
    cases = []
    for combination in product(*between.values()):
        case_levels = dict(zip(between, combination, strict=True))
        excluded_cells = _matching_cells(exclude, case_levels)
        only_cells = _matching_cells(only, case_levels)
        # A cell that names no factor within the case, {}, is the whole case.
        if {} in excluded_cells or (only and not only_cells):
            continue
        level_names = (  # a number of nodes stands alone: `lammps@4`
            level_text(level) if name == "nodes" else f"{name}={level_text(level)}"
            for name, level in case_levels.items()
        )
        suffix = _UNSAFE_CHARACTER.sub("_", ",".join(level_names))
        case = entry.at_levels(suffix, case_levels) if case_levels else entry
        cells = {"exclude": excluded_cells, "only": [] if {} in only_cells else only_cells}
        cases.append(case.with_changes({"factors": within, **cells}))
    return cases


def _matching_cells(cells: Sequence[Cell], levels: Mapping[str, Level]) -> list[dict[str, Level]]:
    """Return the cells that match these levels of a case, each without the factors of `levels`."""
    return [
        {name: level for name, level in cell.items() if name not in levels}
        for cell in cells
        if all(cell.get(name, level) == level for name, level in levels.items())
    ]


def case_request(campaign: Campaign, case: Entry, check: CheckDescription) -> CaseRequest:
    """Return what a case asks of its check."""
    injector = campaign.injector
    settings = {
        name: check.typed(name, value) for name, value in case.set.items() if name in check.levels
    }
    injector_levels = {
        "injector": injector.name,
        "message": injector.message,
        "rate": injector.rate,
        "queue_pairs": injector.queue_pairs,
    }
    return CaseRequest(
        arms=campaign.arms,
        levels={**check.levels, **settings, **injector_levels},
        factors=case.factors,
        exclude=case.exclude,
        only=case.only,
    )


def treatments(arms: Sequence[str], case: Entry) -> list[Treatment]:
    """The treatments of a pair. Raises InputError if nothing is left to compare."""
    crossed = cross(arms, case.factors, case.exclude, case.only)
    if all(treatment.baseline is None for treatment in crossed):
        raise InputError("exclude, only: no treatment is left; allowed: some of them")
    return crossed


# Sweeps of the contention model (Denis, Jeannot and Swartvagher): numbers of computing cores on
# placements, as cases. A placement is a pair of NUMA nodes: one for the computation's data, one for
# the communication's buffers.


def sweep_cases(entry: Entry, machine: Machine) -> list[Entry]:
    """Return the entry, with a sweep once for each number of cores and placement.

    Raises InputError.
    """
    if entry.sweep is None:
        return [entry]
    facts = machine.node_facts()
    reserved = entry.set.get("reserved_cores")
    node_cores = app_cores(
        machine, reserved if isinstance(reserved, int) else DEFAULT_RESERVED_CORES
    )
    most_cores = max(1, node_cores // facts.sockets)
    if entry.set.get("socket") == "all":
        most_cores *= facts.sockets
    few = entry.sweep.cores == "few"
    core_counts = evenly_spaced(most_cores) if few else range(1, most_cores + 1)
    return [
        entry.at_levels(
            f"n{cores}-c{comp_node}-m{comm_node}",
            {"cores": cores, "node": comp_node, "comm_node": comm_node},
        )
        for comp_node, comm_node in placements(machine, entry.sweep.placements)
        for cores in core_counts
    ]


def evenly_spaced(largest: int) -> list[int]:
    """Return eight of the numbers from 1 to `largest`, with both ends; all if there are fewer.

    A model fitted to them predicts nearly as well as a model fitted to all (docs/benchmarks.md).
    """
    gaps = _FEW_CORE_COUNTS - 1
    return sorted({1 + round(gap * (largest - 1) / gaps) for gap in range(gaps + 1)})


def placements(machine: Machine, requested: str) -> list[tuple[int, int]]:
    """Return the pairs of NUMA nodes of a sweep.

    `local` has data and buffers on the first node of the first socket. `calibration` also has both
    on the first node of the second socket. `all` also has all other pairs. Those of `calibration`
    come first, so that a run that is stopped can still be fitted.
    """
    facts = machine.node_facts()
    calibration = [(node, node) for node in facts.numa_nodes[:: facts.numa_nodes_per_socket][:2]]
    if requested == "local":
        return calibration[:1]
    if requested == "calibration":
        return calibration
    nodes = facts.bindable_nodes()
    return list(dict.fromkeys([*calibration, *product(nodes, nodes)]))


# How many nodes a case needs on a machine.


def origins_taken(case: Entry, machine: Machine) -> int:
    """Origin nodes of an allocation; 0 on a shared host."""
    if case.scale:
        return case.scale.origins
    return 0 if machine.origins.policy == "same_host" else machine.origins.nodes


def nodes_taken(case: Entry, machine: Machine) -> int:
    """Target and origin nodes of an allocation. Raises InputError if that is impossible."""
    origins = origins_taken(case, machine)
    if (nodes := case.nodes + origins) > MAX_NODES:
        raise InputError(
            f"nodes: {case.nodes} and {origins} origins found; allowed: {MAX_NODES} together"
        )
    return nodes


# The least length of a run: rows of the writers must fit into it.


def shortest_run_s(campaign: Campaign, machine: Machine) -> float:
    """Return the shortest run into which enough rows of the slowest injector fit, seconds.

    It is 0 if no arm has continuous writes.
    """
    if campaign.arms and not any(ARMS[arm].writing == "continuous" for arm in campaign.arms):
        return 0.0
    return LEAST_ROWS * (INJECTORS[slowest_injector(campaign, machine)].row_s or 0.0)


def slowest_injector(campaign: Campaign, machine: Machine) -> str:
    """Return the injector of a campaign; if it has several, the one with the longest rows."""
    default = machine.injector if campaign.injector.name == "auto" else campaign.injector.name
    names = [
        str(level)
        for factors in (campaign.factors, *(entry.factors for entry in campaign.workloads))
        for level in factors.get("injector", [])
        if level in INJECTORS
    ]
    return max(names or [default], key=lambda name: INJECTORS[name].row_s or 0.0)


# Cases and levels that a machine cannot run: left out before anything runs, with the reason.


def leave_out(
    campaign: Campaign, machine: Machine, case_names: Sequence[str] = ()
) -> tuple[Campaign, list[OmittedCase]]:
    """Return the campaign without what the machine cannot run, and the cases and levels left out.

    With `case_names`, the campaign has only these cases. Raises InputError if no case is left.
    """
    runnable_cases: dict[str, Entry] = {}
    omissions: list[OmittedCase] = []
    for case in campaign.cases:
        runnable, case_omissions = _runnable_part(campaign, case, machine)
        if runnable:
            runnable_cases[runnable.name] = runnable
        omissions += case_omissions
    if not runnable_cases:
        omission = omissions[0]
        raise InputError(f"{campaign.name}: no case is left: {omission.case}: {omission.reason}")
    for name in case_names:
        if name not in runnable_cases:
            raise InputError(f"--case: {name!r} found; allowed: {', '.join(runnable_cases)}")
    kept_names = case_names or runnable_cases
    kept_cases = [case for name, case in runnable_cases.items() if name in kept_names]
    return campaign.model_copy(update={"workloads": kept_cases}), omissions


def _runnable_part(
    campaign: Campaign, case: Entry, machine: Machine
) -> tuple[Entry | None, list[OmittedCase]]:
    """Return a case with the levels that the machine has, or None, and what is left out."""
    if machine.nodes is not None and nodes_taken(case, machine) > machine.nodes:
        too_many = (
            f"more nodes with its origins than the {machine.nodes} of site/{machine.name}.yaml"
        )
        return None, [OmittedCase(case.name, too_many)]
    for name, level in case.set.items():
        if level != CHOSEN_BY_MACHINE.get(name) and (
            reason := why_unsupported(machine, name, level)
        ):
            return None, [OmittedCase(case.name, reason)]
    omissions = [
        OmittedCase(case.name, reason, name, level)
        for name, levels in case.factors.items()
        for level in levels
        if (reason := why_unsupported(machine, name, level))
    ]
    if not omissions:
        return case, []
    omitted_levels = [(omitted.factor, omitted.level) for omitted in omissions]
    factors = {
        name: [level for level in levels if (name, level) not in omitted_levels]
        for name, levels in case.factors.items()
    }
    runnable = case.with_changes({"factors": factors})
    with suppress(InputError):  # `exclude` and `only` may leave no treatment
        if all(factors.values()) and treatments(campaign.arms, runnable):
            return runnable, omissions
    return None, [OmittedCase(case.name, omissions[0].reason)]


def omission_lines(omissions: Sequence[OmittedCase]) -> list[str]:
    """A line for each reason, with the cases and levels it applies to."""
    names_by_reason = grouped((omitted.reason, _case_and_level(omitted)) for omitted in omissions)
    return [f"left out ({reason}): {', '.join(names)}" for reason, names in names_by_reason.items()]


def _case_and_level(omitted: OmittedCase) -> str:
    level = "" if omitted.level is None else f" {omitted.factor}={level_text(omitted.level)}"
    return f"{omitted.case}{level}"
