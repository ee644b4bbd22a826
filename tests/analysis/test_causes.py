from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.effects.estimate import results
from analysis.samples.columns import read_run
from analysis.samples.pairs import judged
from analysis.subjects.causes import STALLS, TIME, Causes, causes
from tests.analysis.made_counters import (
    CASES,
    RANKS,
    RATES,
    TOOL,
    counter_row,
    read_counters,
    with_tool,
    write_counts,
    write_rows,
)
from tests.analysis.made_counters import STALLS as STALLED
from tests.analysis.synthetic import remedies, samples, write_run

LAMMPS = CASES[2]


def made(folder: Path, cases=(LAMMPS,), *, pairs: int = 8, seed: int = 1, **truth) -> Causes:
    runs = {case.name: with_tool(samples(case, pairs=pairs, seed=seed)) for case in cases}
    run = write_run(folder / f"run{seed}", [each for own in runs.values() for each in own])
    for case in cases:
        write_counts(run, case, runs[case.name], seed=seed, **truth)
    return causes_of(run)


def causes_of(run: Path) -> Causes:
    frame = judged(read_run(run).frame)
    return causes(read_counters(run, frame), frame, results(frame))


def change_of(found: Causes, role: str):
    (change,) = (each for each in found.changes if each.role == role and each.treatment == "on")
    return change


def test_a_change_is_that_of_the_sums_over_ranks(tmp_path):
    found = change_of(made(tmp_path), "L1 misses")
    assert (found.case, found.treatment, found.baseline) == ("lammps", "on", "off")
    assert (found.tool, found.pairs) == (TOOL, 8)
    # Made: 4 ranks of 4e7 per second for 177 s, and 1.1 times as many under traffic.
    assert found.off == pytest.approx(RANKS * 4e7 * 177, rel=0.05)
    assert found.ratio.low <= 1.1 <= found.ratio.high


def test_links_across_workloads_are_those_of_numpy(tmp_path):
    found = made(tmp_path, CASES)
    across = {(each.treatment, each.of, each.to): each for each in found.links if not each.case}
    # The truth: sums over ranks without noise, against the times without noise.
    off = {case.name: case.base for case in CASES}
    on = {case.name: case.base * case.effects["on"] for case in CASES}
    expected = np.corrcoef(
        list(off.values()), [4 * RATES["l1d.replacement"] * t for t in off.values()]
    )
    misses = across["off", TIME, "L1 misses"].correlation
    assert misses.r == pytest.approx(expected[0, 1], abs=0.01)
    stalls = [
        RATES["cycle_activity.stalls_l3_miss"] * off[name]
        + 0.8 * RATES["cycles"] * (on[name] - off[name])
        for name in off
    ]
    r = np.corrcoef(list(on.values()), stalls)[0, 1]
    assert across["on", TIME, STALLS].correlation.r == pytest.approx(r, abs=0.01)
    assert {each.points for each in across.values()} == {6}
    # Six p values of the time and three of the stalls for each of two arms, so that Holm's
    # largest factor is at most 18.
    l3 = across["on", STALLS, "L3 misses"]
    assert l3.correlation.p <= l3.p <= 18 * l3.correlation.p


def test_links_within_a_workload_have_its_runs_as_points(tmp_path):
    found = made(tmp_path)
    within = {(each.treatment, each.of, each.to): each for each in found.links if each.case}
    cycles = within["on", TIME, "cycles"]
    assert (cycles.case, cycles.points) == ("lammps", 8)
    # Without traffic the made counts do not depend on the time of a run.
    assert within["off", TIME, "cycles"].p > 0.05
    assert cycles.p >= cycles.correlation.p


@pytest.mark.parametrize("stalls", [0.8, 0.2])
def test_the_extra_cycles_are_told_apart(tmp_path, stalls):
    (loss,) = made(tmp_path, stall_share=stalls).losses
    assert (loss.case, loss.treatment) == ("lammps", "on")
    assert loss.share.low <= stalls <= loss.share.high


@pytest.mark.parametrize(
    ("case", "truth"),
    [
        # Half and half; no slowdown; too few pairs; noise larger than the effect.
        (LAMMPS, {"stall_share": 0.5}),
        (CASES[0], {"noise": 0.1}),
        (LAMMPS, {"pairs": 5}),
    ],
)
def test_nothing_is_said_where_the_figures_do_not_carry_it(tmp_path, case, truth):
    found = made(tmp_path, [case], **truth)
    assert found.losses == []
    assert (change_of(found, "cycles").ratio is None) == ("pairs" in truth)


def test_runs_of_two_tools_and_runs_without_are_never_mixed(tmp_path):
    # Without a tool, with `cheap`, which counts cycles only, and with `dear`, which makes runs
    # three times as long; only wrapped runs have counts.
    times = {"on": 2.0}
    for tool, price in (("cheap", 1.0), ("dear", 3.0)):
        times |= {f"off@tool={tool}": price, f"on@tool={tool}": 2.0 * price}
    case = replace(remedies(times=times), name="melt", noise=0.005)
    runs = samples(case, pairs=8)
    run = write_run(tmp_path / "run", runs)
    cheap = {"cycles": 1e9}
    counted = {"cheap": ("perf_stat", cheap), "dear": (TOOL, cheap | {STALLED: 1e8}), "": ("", {})}
    rows = []
    for each in runs:
        tool, events = counted[each.arm.partition("tool=")[2]]
        rows += [counter_row(each.key, e, v * each.fom, tool=tool) for e, v in events.items()]
    write_rows(run, "melt", rows)
    found = causes_of(run)
    changes = {(each.tool, each.role): each for each in found.changes}
    assert set(changes) == {("perf_stat", "cycles"), (TOOL, "cycles"), (TOOL, "memory stalls")}
    # on / off of the same tool is 2; across tools it would be 6, 2/3 or a median between.
    for change in changes.values():
        assert change.ratio.value == pytest.approx(2.0, rel=0.02)
        assert change.pairs == 8
    # Cycles are 1e9 per second of a run that has the tool with most roles: 8 runs, one line.
    within = [e for e in found.links if e.case and (e.treatment, e.to) == ("off", "cycles")]
    assert [(each.points, round(each.correlation.r, 6)) for each in within] == [(8, 1.0)]


def test_more_cycles_in_the_same_time_are_no_loss(tmp_path):
    # Runs under traffic are faster; counts are made as if the baseline took half of its time.
    faster = replace(LAMMPS, effects={"on": 0.95, "aa": 1.0})
    runs = with_tool(samples(faster, pairs=8))
    run = write_run(tmp_path / "run", runs)
    write_counts(run, replace(faster, base=faster.base / 2), runs)
    found = causes_of(run)
    assert change_of(found, "cycles").ratio.low > 1.5
    assert found.losses == []


def test_a_share_is_averaged_over_ranks(tmp_path):
    runs = with_tool(samples(LAMMPS, pairs=6))
    run = write_run(tmp_path / "run", runs)
    of = {"tool": "perf_stat:topdown", "unit": "1"}
    rows = [
        counter_row(each.key, "tma_memory_bound", factor * share, rank=rank, **of)
        for each, factor in ((each, 2 if each.arm == "on" else 1) for each in runs)
        for rank, share in enumerate((0.2, 0.4))
    ]
    write_rows(run, "lammps", rows)
    change = change_of(causes_of(run), "memory bound")
    assert (change.off, change.on) == (pytest.approx(0.3), pytest.approx(0.6))
    assert change.ratio.value == pytest.approx(2)


def test_counts_that_took_turns_are_named_and_not_used(tmp_path):
    runs = with_tool(samples(LAMMPS, pairs=6))
    run = write_run(tmp_path / "run", runs)
    write_counts(run, LAMMPS, runs)
    file = run / "counters" / "lammps.jsonl"
    frame = pl.read_ndjson(file.read_bytes())
    shared = pl.col("event") == "l1d.replacement"
    frame.with_columns(
        state=pl.when(shared).then(pl.lit("multiplexed")).otherwise("state")
    ).write_ndjson(file)
    found = causes_of(run)
    assert found.without == {"multiplexed": ["L1 misses"]}
    assert not [each for each in found.changes if each.role == "L1 misses"]
    assert not [each for each in found.links if each.to == "L1 misses"]
