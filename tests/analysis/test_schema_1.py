"""Runs of schema 1, with the results that the version which wrote that schema made of them.

That version estimated the median of the ratios with its interval of order statistics, which is
`sign` today; its other figures, counts and reasons are as they were.

`quick` was recorded on a host of two cores (its name is changed), the others are synthetic: with
rejected and repeated runs in two allocations, with cells of the campaign `numa`, with timetables.
Those were not written by a conductor: their times overlap, and their provenance has other names.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.compare.sides import compare_sides
from analysis.report.data import RunData, load_run
from analysis.report.page import render

RUNS = Path(__file__).parents[1] / "captures" / "schema_1"
NAMES = ["quick", "rejected", "numa", "scaling"]
#: Reasons that have been reworded since.
REWORDED = {"no writer wrote meanwhile": "no writer wrote during the run"}
#: Verdicts that are called otherwise since. All writes were emulated.
RENAMED = {
    "noise floor": "baseline repeatability",
    "noise floor missing": "baseline not repeated",
    "memory contention": "slower under emulated writes",
}
#: The medians' interval began below that of aa/off; the estimate of today lies above it. And an arm
#: in which nobody wrote.
DECIDED = {
    ("quick", "stream", "on"): "slower under emulated writes",
    ("scaling", "lammps_scaling@16", "daly"): "no writes",
}
#: Notes on the width of the interval and on the allocations.
CHANGED_NOTES = ("half", "2 allocations")
FIGURES = ("slowdown", "slowdown_low", "slowdown_high")
INTERVALS = ("noise_floor_low", "noise_floor_high", "control_low", "control_high")


def levels_of(run: RunData, case: str, arm: str) -> dict[str, Any]:
    chosen = run.samples.filter(pl.col("case") == case, pl.col("arm") == arm)["factors"].unique()
    assert len(chosen) == 1
    found: dict[str, Any] = json.loads(chosen[0])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_result_is_as_it_was(name: str) -> None:
    (was,) = json.loads((RUNS / name / "results.json").read_text())["runs"]
    now = load_run(RUNS / name, force=True).document()
    assert {key: now[key] for key in was if key != "results"} == {
        key: value for key, value in was.items() if key != "results"
    }
    assert now["contrasts"] == []
    assert len(now["results"]) == len(was["results"]) > 0
    for row, before in zip(now["results"], was["results"], strict=True):
        kept = [note for note in before.pop("notes") if not note.startswith(CHANGED_NOTES)]
        assert row["notes"][: len(kept)] == kept
        blocks = 1 if name in ("quick", "numa", "scaling") else 2
        assert row["notes"][len(kept)] == (
            f"the interval does not cover the next allocation ({blocks} measured, 3 needed)"
        )
        verdict = before.pop("verdict")
        at = (name, row["case"], row["arm"])
        assert row["verdict"] == DECIDED.get(at, RENAMED.get(verdict, verdict))
        for run in before["rejections"]:
            run["reason"] = REWORDED.get(run["reason"], run["reason"])
        # Keys that there were keep their order; new ones come after them.
        assert [key for key in row if key in before] == list(before)
        for key in FIGURES:
            assert row[key.replace("slowdown", "sign")] == pytest.approx(before.pop(key))
        for key in INTERVALS:
            assert (row[key] is None) == (before.pop(key) is None)
        for key, value in before.items():
            assert row[key] == (pytest.approx(value) if isinstance(value, float) else value), key


def test_arms_say_role_and_baseline() -> None:
    samples = load_run(RUNS / "scaling", force=True).samples
    found = samples.select("arm", "role", "baseline", "factors").unique().sort("arm").rows()
    assert sorted(found) == [
        ("aa", "floor", "off", "{}"),
        ("constant", "effect", "off", "{}"),
        ("daly", "effect", "off", "{}"),
        ("full", "effect", "off", "{}"),
        ("off", "baseline", None, "{}"),
    ]


def test_cells_of_numa_say_their_factors() -> None:
    run = load_run(RUNS / "numa", force=True)
    cell = {"buffer": "other", "load": "write", "workers": "free"}
    for direction in ("read", "write"):
        case = f"{direction}-other-write-free"
        assert levels_of(run, case, "on") == {**cell, "direction": direction}
        assert levels_of(run, case, "off") == levels_of(run, case, "spin") == cell
    assert levels_of(run, "write-nic-idle", "off") == {"buffer": "nic", "load": "idle"}
    rows = {(row.case, row.arm): row.factors for row in run.results}
    assert rows["read-other-write-free", "on"] == {**cell, "direction": "read"}


def test_the_recorded_run_has_no_fault() -> None:
    integrity = load_run(RUNS / "quick").integrity
    assert integrity.count == 0
    assert [note.partition(":")[0] for note in integrity.notes] == [
        "run.json has no seed",
        "recorded by an older version",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_they_are_compared_and_reported(name: str) -> None:
    run = load_run(RUNS / name, force=True)
    copy = replace(run, header=replace(run.header, run="another"))
    found = compare_sides([run], [copy]).rows
    effects = {(row.case, row.arm) for row in run.results if row.role == "effect"}
    assert {(row.case, row.arm) for row in found if row.metric == "slowdown"} == effects
    assert all(row.ratio in (None, pytest.approx(1.0)) for row in found)
    assert run.header.run in render([run])
