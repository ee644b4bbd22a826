"""Chooses a layout if a case has `layout: auto`: its layouts are compared, and the fastest is used.

A *layout* is the number of ranks on a node and of cores per rank, such as `4x8`. The runs without
writers that compare layouts are a case of their own, `CASE@layouts`, which has only the arm `off`.
The choice is computed from the stored samples of this case, so a resumed run makes the same choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from nimc.readiness.checks import CheckDescription
from records.arms import BASELINE
from records.campaign import Campaign, Entry
from records.errors import InputError
from records.machine.site import Machine
from records.treatment import Treatment
from records.units import plural
from reframe_tests.factors import AUTO, DEFAULT_RESERVED_CORES, app_cores, most_points

if TYPE_CHECKING:
    import polars as pl

#: Name of the variable that sets a layout.
LAYOUT = "layout"
#: Suffix of the name of the case in which layouts are compared.
SUFFIX = "@layouts"
#: Number of accepted runs of each layout that are compared.
RUNS_PER_LAYOUT = 3


def is_to_be_chosen(case: Entry) -> bool:
    """Return whether the layout of a case is to be chosen by a comparison."""
    return bool(case.set.get(LAYOUT) == AUTO)


def cores_of(case: Entry, machine: Machine) -> int:
    """Return the number of cores on a node that a case may use. Raises InputError."""
    reserved = case.set.get("reserved_cores", DEFAULT_RESERVED_CORES)
    core_spec = case.set.get("core_spec", 0)
    return case.set.get("layout_cores") or app_cores(machine, reserved, core_spec)


def candidates(case: Entry, check: CheckDescription, machine: Machine) -> list[str]:
    """Return the layouts that a case may have on a node, in decreasing order of ranks.

    A layout uses all cores that the case may use. If the check allows only certain numbers
    of ranks, some cores may stay unused. Layouts of `uncountable` are left out. Raises InputError
    if no layout is possible.
    """
    layouts = _possible_layouts(case, check, machine)
    left_out = uncountable(case, check, machine)
    if len(left_out) == len(layouts):
        raise InputError(
            f"{case.name}: layout: {AUTO} found; each layout has more points a rank than"
            f" '{case.check}' counts in 32 bits; allowed: a smaller edge or memory_share"
        )
    return [layout for layout in layouts if layout not in left_out]


def uncountable(case: Entry, check: CheckDescription, machine: Machine) -> list[str]:
    """Return the layouts whose ranks have more points than the program counts in 32 bits.

    The largest levels of the factors `edge` and `memory_share` decide.
    """
    if not check.point_b or case.set.get("working_set", AUTO) != AUTO:
        return []

    def largest(name: str) -> float:
        value = case.set.get(name, check.types[name].default)
        return max(map(float, case.factors.get(name, [value])))

    def points(ranks: int) -> int:
        """Return the points of a rank's cube, as the check computes them."""
        if edge := largest("edge"):
            return int(round(edge * (cores_of(case, machine) / ranks) ** (1 / 3)) ** 3)
        share = min(largest("memory_share"), machine.memory_share)
        return int((share * machine.memory_b() / ranks / check.point_b) ** (1 / 3)) ** 3

    ranks_by_layout = {
        layout: int(layout.partition("x")[0]) for layout in _possible_layouts(case, check, machine)
    }
    return [
        layout for layout, ranks in ranks_by_layout.items() if points(ranks) > most_points(ranks)
    ]


def _possible_layouts(case: Entry, check: CheckDescription, machine: Machine) -> list[str]:
    """Return the layouts of `candidates`, and those that are left out."""
    cores = cores_of(case, machine)
    rank_counts = check.rank_counts
    layouts = [
        f"{ranks}x{cores // ranks}"
        for ranks in range(cores, 0, -1)
        if (ranks * case.nodes in rank_counts if rank_counts else cores % ranks == 0)
    ]
    if not layouts:
        nodes = "one node" if case.nodes == 1 else f"each of {case.nodes} nodes"
        allowed = "one core or more"
        if rank_counts:
            first_counts = ", ".join(map(str, rank_counts[:4]))
            allowed = f"nodes and cores for a total of {first_counts}, ... ranks"
        raise InputError(
            f"{case.name}: layout: {AUTO} found; no number of ranks of '{case.check}' fits on"
            f" {plural(cores, 'core')} on {nodes}; allowed: {allowed}"
        )
    return layouts


def comparison_campaign(campaign: Campaign, case: Entry, layouts: Sequence[str]) -> Campaign:
    """Return a campaign with one case, which compares these layouts of `case`."""
    comparison = case.with_changes(
        {
            "case": f"{case.name}{SUFFIX}",
            "set": {name: value for name, value in case.set.items() if name != LAYOUT},
            "factors": {LAYOUT: list(layouts)},
            "exclude": [],
            "only": [],
        }
    )
    return campaign.model_copy(update={"workloads": [comparison], "arms": [BASELINE]})


def with_layout(case: Entry, layout: str) -> Entry:
    """Return a case with the chosen layout."""
    return case.with_changes({"set": {**case.set, LAYOUT: layout}})


def fastest(run: Path, case: Entry, treatments: Sequence[Treatment]) -> str | None:
    """Return the layout whose runs have the best median figure of merit.

    A single layout is returned without runs. Returns None if a layout has too few accepted runs.
    `case` is the case that compares layouts (`CASE@layouts`). It has a treatment for each layout.
    """
    if len(treatments) == 1:
        return str(treatments[0].factors[LAYOUT])
    if short_of_runs(run, case, treatments):
        return None
    accepted = _judged_samples(run, case).filter(status="counts")
    medians = {
        str(treatment.factors[LAYOUT]): median(accepted.filter(arm=treatment.name)["fom"])
        for treatment in treatments
    }
    best_of = max if accepted["fom_better"][0] == "higher" else min
    return best_of(medians, key=lambda layout: medians[layout])


def short_of_runs(run: Path, case: Entry, treatments: Sequence[Treatment]) -> dict[str, str]:
    """Return layout -> why its last rejected run was rejected, for layouts with too few runs.

    The parameters are those of `fastest`.
    """
    samples = _judged_samples(run, case)
    reasons_by_layout = {}
    for treatment in treatments:
        runs = samples.filter(arm=treatment.name)
        if runs.filter(status="counts").height < RUNS_PER_LAYOUT:
            reasons = runs["reason"].drop_nulls()
            last_reason = str(reasons[-1]) if len(reasons) else "no run was rejected"
            reasons_by_layout[str(treatment.factors[LAYOUT])] = last_reason
    return reasons_by_layout


def _judged_samples(run: Path, case: Entry) -> pl.DataFrame:
    # Imported here, since analysis starts slowly.
    from analysis.samples.columns import read_samples
    from analysis.samples.pairs import judge_samples

    path = run / "samples" / f"{case.name}.jsonl"
    return judge_samples(read_samples([path] if path.exists() else []).frame)
