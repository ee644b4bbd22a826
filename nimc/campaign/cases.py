"""Turns the entries of a campaign file's list `workloads` into cases.

A *factor* is a condition of runs, and a *level* is one of its values. A *treatment* is the
conditions of a run; its *arm* says what the writers do. A *block* is the pairs of runs of one
allocation. Some factors, such as the number of nodes, cannot change their level within a block. An
entry has a case for each combination of the levels of these factors.

This module also makes the cases of a sweep over cores and placements. It computes how many nodes a
case takes and how long its runs must be. It leaves out cases and levels that a machine cannot run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product

from conductor.counters import slowest_period_s
from conductor.injectors import INJECTORS
from conductor.judge.length import LEAST_ROWS, shortest_count_s
from nimc.campaign.layouts import cores_of
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
from reframe_tests.factors import why_unsupported
from reframe_tests.planning import LEFT_TO_MACHINE, CaseRequest, resolved_scale

#: A sweep with `cores: few` is measured with this many different numbers of cores.
_FEW_CORE_COUNTS = 8
#: A character that is not allowed in the name of a case, since files are named by it.
_UNSAFE_CHARACTER = re.compile(r"[^A-Za-z0-9._@+%=,-]")


def arms_of(campaign: Campaign, machine: Machine) -> list[str]:
    """Return the campaign's arms, or the standard arms of the machine if the campaign has none."""
    return campaign.arms or standard_arms(same_host=machine.origins.policy == "same_host")


#: Function that is called for a wrong case. Its arguments are the index of the entry, the entry's
#: wrong key (empty: the whole entry) and the error.
OnError = Callable[[int, str, InputError], None]


def expand(
    campaign: Campaign,
    checks: Mapping[str, CheckDescription],
    machine: Machine,
    on_error: OnError,
) -> Campaign:
    """Return the campaign with its arms, and with the cases in place of the entries.

    A case has only the factors that change within its blocks. The short writes of each case (their
    number and lengths) are computed here. `on_error` is called for each wrong case, which is then
    left out.
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
                nodes_taken(scaled, machine)  # raises InputError if there are too many
                cases += sweep_cases(scaled, machine)
            except InputError as error:
                on_error(index, "set", error)
    changes = {"workloads": cases, "factors": {}, "exclude": [], "only": []}
    return campaign.model_copy(update=changes)


def factors_of(campaign: Campaign, entry: Entry) -> dict[str, list[Level]]:
    """Return factor -> levels of an entry. Its own levels override the campaign's levels."""
    return {**campaign.factors, **entry.factors}


def cases_of(campaign: Campaign, entry: Entry, check: CheckDescription) -> list[Entry]:
    """Return an entry's cases: one for each combination of levels that cannot change in a block."""
    factors = factors_of(campaign, entry)
    exclude, only = [*campaign.exclude, *entry.exclude], [*campaign.only, *entry.only]
    if not (factors or exclude or only):
        return [entry]
    factors_within = {
        name: levels for name, levels in factors.items() if check.changes_within(name)
    }
    factors_between = {
        name: levels for name, levels in factors.items() if name not in factors_within
    }
    cases = []
    for combination in product(*factors_between.values()):
        case_levels = dict(zip(factors_between, combination, strict=True))
        excluded_cells = _matching_cells(exclude, case_levels)
        only_cells = _matching_cells(only, case_levels)
        # A cell without further factors ({}) covers the whole case.
        if {} in excluded_cells or (only and not only_cells):
            continue
        level_names = (  # a number of nodes is written without 'nodes=': `lammps@4`
            level_text(level) if name == "nodes" else f"{name}={level_text(level)}"
            for name, level in case_levels.items()
        )
        suffix = _UNSAFE_CHARACTER.sub("_", ",".join(level_names))
        case = entry.at_levels(suffix, case_levels) if case_levels else entry
        cells = {"exclude": excluded_cells, "only": [] if {} in only_cells else only_cells}
        cases.append(case.with_changes({"factors": factors_within, **cells}))
    return cases


def _matching_cells(cells: Sequence[Cell], levels: Mapping[str, Level]) -> list[dict[str, Level]]:
    """Return the cells that match the levels of a case; these levels are removed from each cell.

    A cell is a combination of levels in `exclude` or `only`.
    """
    return [
        {name: level for name, level in cell.items() if name not in levels}
        for cell in cells
        if all(cell.get(name, level) == level for name, level in levels.items())
    ]


def case_request(campaign: Campaign, case: Entry, check: CheckDescription) -> CaseRequest:
    """Return the arms, levels and factors that a case requests from its check."""
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
    """Return the treatments of a pair of a case.

    Raises InputError if no treatment has a baseline with which it could be compared.
    """
    crossed = cross(arms, case.factors, case.exclude, case.only)
    if all(treatment.baseline is None for treatment in crossed):
        raise InputError("exclude, only: no treatment is left; allowed: some of them")
    return crossed


# A sweep measures the inputs of the contention model of Denis, Jeannot and Swartvagher. It has a
# case for each number of computing cores and each placement. A placement is a pair of NUMA nodes:
# one for the computation's data, one for the communication's buffers.


def sweep_cases(entry: Entry, machine: Machine) -> list[Entry]:
    """Return the cases of an entry's sweep: one for each number of cores and each placement.

    An entry without a sweep is returned as the only case. Raises InputError.
    """
    if entry.sweep is None:
        return [entry]
    facts = machine.node_facts()
    sockets = facts.sockets if entry.set.get("socket") == "all" else 1
    most_cores = max(1, sockets * (cores_of(entry, machine) // facts.sockets))
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
    """Return eight evenly spaced numbers from 1 to `largest`, which include 1 and `largest`.

    If `largest` is at most 8, all numbers are returned. A model that is fitted to the eight numbers
    predicts nearly as well as a model that is fitted to all numbers (docs/benchmarks.md).
    """
    gaps = _FEW_CORE_COUNTS - 1
    return sorted({1 + round(gap * (largest - 1) / gaps) for gap in range(gaps + 1)})


def placements(machine: Machine, requested: str) -> list[tuple[int, int]]:
    """Return the placements of a sweep: pairs of NUMA nodes for data and for buffers.

    `local` is one placement: data and buffers on the first NUMA node of the first socket.
    `calibration` adds the placement with data and buffers on the first NUMA node of the second
    socket, if there is one. `all` adds all other pairs. The placements of `calibration` come first,
    so that a model can be fitted even if the run is stopped early.
    """
    facts = machine.node_facts()
    calibration = [(node, node) for node in facts.numa_nodes[:: facts.numa_nodes_per_socket][:2]]
    if requested == "local":
        return calibration[:1]
    if requested == "calibration":
        return calibration
    nodes = facts.bindable_nodes()
    return list(dict.fromkeys([*calibration, *product(nodes, nodes)]))


# How many nodes a case takes on a machine.


def origins_taken(case: Entry, machine: Machine) -> int:
    """Return the number of origin nodes of a case's allocation.

    It is 0 if one host is both origin and target.
    """
    if case.scale:
        return case.scale.origins
    return machine.origins.separate_nodes


def nodes_taken(case: Entry, machine: Machine) -> int:
    """Return the number of target and origin nodes of a case's allocation.

    Raises InputError if a plan cannot have so many nodes.
    """
    origins = origins_taken(case, machine)
    if (nodes := case.nodes + origins) > MAX_NODES:
        raise InputError(
            f"nodes: {case.nodes} and {origins} origins found; allowed: {MAX_NODES} together"
        )
    return nodes


# The least length of a run. Writers report a row at intervals, and a run must last for enough rows.
# Some devices update their byte counters rarely, and a run must last for a precise count.


def counter_period_s(machine: Machine) -> float:
    """Return the time between two updates of the devices' byte counters, seconds.

    It is read on this host, which may have the devices of the nodes. It is 0 if the counters are
    always up to date, if this host lacks the devices, or if origin and target share a host.
    """
    if machine.origins.policy == "same_host":
        return 0.0
    return slowest_period_s(machine.devices)


def shortest_run(campaign: Campaign, machine: Machine) -> tuple[float, str]:
    """Return the least length of a run, seconds, and the reason for it in words.

    The length is 0 if no arm has continuous writes.
    """
    if campaign.arms and not any(ARMS[arm].writing == "continuous" for arm in campaign.arms):
        return 0.0, ""
    injector, period_s = slowest_injector(campaign, machine), counter_period_s(machine)
    rows_s = LEAST_ROWS * (INJECTORS[injector].row_s or 0.0)
    counted_s = shortest_count_s(period_s, machine.proof.counter_share)
    if counted_s > rows_s:
        reason = f"a byte counter that is updated every {period_s:g} s needs {counted_s:g} s"
        return counted_s, reason
    return rows_s, f"{LEAST_ROWS} rows of {injector} take {rows_s:g} s"


def slowest_injector(campaign: Campaign, machine: Machine) -> str:
    """Return the injector of a campaign; of several, the one with the longest row interval."""
    default = machine.injector if campaign.injector.name == "auto" else campaign.injector.name
    names = [
        str(level)
        for factors in (campaign.factors, *(entry.factors for entry in campaign.workloads))
        for level in factors.get("injector", [])
        if level in INJECTORS
    ]
    return max(names or [default], key=lambda name: INJECTORS[name].row_s or 0.0)


# Cases and levels that a machine cannot run are left out, with the reason, before anything runs.


def leave_out(
    campaign: Campaign, machine: Machine, case_names: Sequence[str] = ()
) -> tuple[Campaign, list[OmittedCase]]:
    """Return the part of a campaign that a machine can run, and the omitted cases and levels.

    If `case_names` are given, the campaign has only these cases. Raises InputError if no case is
    left, or if one of `case_names` is not left.
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
    """Return the part of a case that the machine can run (or None), and what is omitted."""
    if machine.nodes is not None and nodes_taken(case, machine) > machine.nodes:
        too_many = (
            f"more nodes with its origins than the {machine.nodes} of site/{machine.name}.yaml"
        )
        return None, [OmittedCase(case.name, too_many)]
    for name, level in case.set.items():
        if level != LEFT_TO_MACHINE.get(name) and (reason := why_unsupported(machine, name, level)):
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
    """Return a line for each reason of an omission, with the cases and levels that it concerns."""
    names_by_reason = grouped((omitted.reason, _case_and_level(omitted)) for omitted in omissions)
    return [f"left out ({reason}): {', '.join(names)}" for reason, names in names_by_reason.items()]


def _case_and_level(omitted: OmittedCase) -> str:
    level = "" if omitted.level is None else f" {omitted.factor}={level_text(omitted.level)}"
    return f"{omitted.case}{level}"
