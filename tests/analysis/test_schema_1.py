"""Runs of schema 1, with the results that the version which wrote that schema made of them.

`quick` was recorded on a host of two cores (its name is changed), the others are synthetic: with
rejected and repeated runs in two allocations, with cells of the campaign `numa`, with timetables.
Those were not written by a conductor: their times overlap, and their provenance has other names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.compare import compare
from analysis.report.data import RunData, load_run
from analysis.report.page import render

RUNS = Path(__file__).parents[1] / "captures" / "schema_1"
NAMES = ["quick", "rejected", "numa", "scaling"]
#: Notes and reasons that have been reworded since.
REWORDED = {
    "2 allocations: the interval speaks of these alone (6 for more)": (
        "not enough allocations to generalise (2 of 6)"
    ),
    "half the interval's width is 2.1% of the slowdown after 7 pairs of at most 30; 2.0% was"
    " asked for": (
        "half-width of the interval is 2.1% of the slowdown after 7 pairs (at most 30); 2.0% was"
        " requested"
    ),
    "half the interval's width is 2.1% of the slowdown after 8 pairs of at most 30; 2.0% was"
    " asked for": (
        "half-width of the interval is 2.1% of the slowdown after 8 pairs (at most 30); 2.0% was"
        " requested"
    ),
    "no writer wrote meanwhile": "no writer wrote during the run",
}


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
        before["notes"] = [REWORDED.get(note, note) for note in before["notes"]]
        for run in before["rejections"]:
            run["reason"] = REWORDED.get(run["reason"], run["reason"])
        # Keys that there were keep their order; new ones come after them.
        assert list(row)[: len(before)] == list(before)
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
    found = compare(run, run)
    effects = {(row.case, row.arm) for row in run.results if row.role == "effect"}
    assert {(row.case, row.arm) for row in found} == effects
    assert all(row.ratio in (None, pytest.approx(1.0)) for row in found)
    assert run.header.run in render([run])
