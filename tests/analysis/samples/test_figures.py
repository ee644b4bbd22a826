"""What must hold of each workload's figures, by hand: at most 0.1 % beyond (5 % of UMT)."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.samples.faults import Faults, Rows
from analysis.samples.figures import judge_figures


def faults(*runs: dict[str, Any]) -> list[str]:
    """Of runs of 10 s with a figure of 10, which these change."""
    made = [
        {"case": "made", "arm": "off", "workload": "made", "baseline": None, "warmup": False}
        | {"schema": 4, "fom": 10.0, "fom_unit": "1/s", "elapsed_s": 10.0, "outcome": "kept"}
        | each
        | {"fom_extra": json.dumps(each.get("fom_extra", {}))}
        for each in runs
    ]
    for each in made:
        each.setdefault("fom_better", "lower" if each["fom_unit"] == "s" else "higher")
    types = {"baseline": pl.String, "fom": pl.Float64}
    rows = Rows(
        pl.DataFrame(made, schema_overrides=types), {Path("made.jsonl"): len(made)}, Faults()
    )
    judge_figures(rows)
    return rows.faults.lines


ZONES = {"elements": 1000.0, "iterations": 8.0, "fom": 5.0}


@pytest.mark.parametrize(
    ("workload", "unit", "figures", "beyond", "words"),
    [
        ("amg", "1/s", {"setup_s": 3.0, "solve_s": 7.005}, {"solve_s": 7.015}, "setup_s + solve_s"),
        ("cns", "s", {"fom": 10.005, "cells": 1.0}, {"fom": 10.015}, "at most 'elapsed_s'"),
        ("hpccg", "s", {"fom": 10.005}, {"fom": 10.015}, "at most 'elapsed_s'"),
        ("lammps", "s", {"fom": 10.005}, {"fom": 10.015}, "at most 'elapsed_s'"),
        ("hpccg", "s", {"sparsemv_s": 6.0, "ddot_s": 4.005}, {"ddot_s": 4.015}, "its parts"),
        ("snap", "s", {"sweeps_s": 10.005}, {"sweeps_s": 10.015}, "at least sweeps_s, its parts"),
        # 1000 x 8 / 5 s
        ("lulesh", "s", {**ZONES, "zones_1_s": 1600.0}, {"zones_1_s": 1600.1}, "zones"),
        # 5 % above 10/s x 10 s
        ("umt", "1/s", {"cycles": 4.0, "unknowns": 26.2}, {"unknowns": 26.3}, "'unknowns' x"),
        ("numa", "s", {"fom": 10.005}, {"fom": 10.015}, "at most 'elapsed_s'"),
        ("xsbench", "1/s", {}, {"fom_unit": "s"}, "fom_unit: 's' found; allowed: 1/s"),
    ],
)
def test_a_figure_beyond_what_the_others_allow(
    workload: str, unit: str, figures: dict[str, Any], beyond: dict[str, Any], words: str
) -> None:
    for changes in ({}, beyond):
        made = figures | changes
        own = {name: made.pop(name) for name in ("fom", "fom_unit") if name in made}
        run = {"workload": workload, "fom_unit": unit, "fom_extra": made, **own}
        assert any(words in line for line in faults(run)) == bool(changes)
        # What does not count, or has none, breaks no rule.
        assert faults({**run, "outcome": "rejected"}) == faults({**run, "fom": None}) == []


PAIR = ({"fom": 9.0}, {"fom": 8.0, "arm": "aa", "baseline": "off"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"fom_unit": "B/s"}, "fom_unit: 'B/s' found; allowed: that of its baseline's other runs"),
        ({"fom_better": "lower"}, "allowed: that of its baseline's other runs"),
        ({"arm": "off", "baseline": None, "fom": 9.0}, "another one, or another 'fom'"),
        ({"arm": "off", "baseline": None, "fom": 9.0, "elapsed_s": 11.0}, None),
        ({"arm": "off", "baseline": None, "fom": 9.0, "warmup": True}, None),
        ({"arm": "off", "baseline": None, "fom": 9.0, "case": "other"}, None),
    ],
)
def test_a_run_is_like_its_baseline_and_no_copy(changes: dict[str, Any], words: str | None) -> None:
    found = faults(PAIR[0], {**PAIR[1], **changes})
    assert [(words or "no fault") in line for line in found] == [True] * len(found)
    assert bool(found) == bool(words)


@pytest.mark.parametrize(
    ("runs", "workload", "found"),
    [
        (5, "xsbench", []),
        (6, "xsbench", ["made.jsonl:1: fom: the same in all"]),
        (6, "theirs", []),  # a check of others may show a constant
    ],
)
def test_six_runs_of_one_figure_are_not_measured(
    runs: int, workload: str, found: list[str]
) -> None:
    alike = [{"workload": workload, "elapsed_s": 10.0 + each} for each in range(runs)]
    assert [line[:34] for line in faults(*alike)] == found
