"""Tests the share of stalls among extra cycles, with made counts of known true values."""

from dataclasses import replace

import pytest

from analysis.effects.result import Verdict
from analysis.questions.question import answer, sentences_of
from analysis.report.data import load_run
from analysis.subjects.extra_cycles import LOSSES
from analysis.subjects.paired_roles import STALLED_CYCLES
from tests.analysis.made_counters import CASES, FIGURE_4, with_tool, write_counts
from tests.analysis.subjects.made_causes import LAMMPS, change_of, made_run, rows
from tests.analysis.synthetic import answered, samples, write_run


def test_stalled_cycles_are_not_called_stalls_on_memory(tmp_path):
    table = answered(LOSSES, made_run(tmp_path, tool=FIGURE_4))
    (row,) = table.to_dicts()
    assert (row["role"], row["word"]) == (STALLED_CYCLES, "stalled cycles")
    assert row["share_low"] <= 0.8 <= row["share_high"]
    (text,) = sentences_of(LOSSES, table)
    assert text.endswith(
        " of the extra cycles are stalled cycles: most of the loss is stalled cycles."
    )


@pytest.mark.parametrize(
    ("stalls", "word", "ending"),
    [
        (0.8, "stalls on memory", "most of the loss is stalls on memory."),
        (0.2, "something else", "most of the loss is something else."),
    ],
)
def test_the_cause_of_extra_cycles_follows_from_the_share_of_stalls(tmp_path, stalls, word, ending):
    table = answered(LOSSES, made_run(tmp_path, stall_share=stalls))
    (row,) = table.to_dicts()
    assert (row["case"], row["treatment"], row["word"]) == ("lammps", "on", word)
    assert row["share_low"] <= stalls <= row["share_high"]
    (text,) = sentences_of(LOSSES, table)
    assert text.startswith(f"lammps, on: {100 * row['share']:.0f} % (")
    assert text.endswith(ending)


@pytest.mark.parametrize(
    ("case", "truth"),
    [
        # Half of the extra cycles are stalls; noise is larger than the effect; pairs are too few.
        (LAMMPS, {"stall_share": 0.5}),
        (CASES[0], {"noise": 0.1}),
        (LAMMPS, {"pairs": 5}),
    ],
)
def test_unclear_shares_and_runs_without_a_loss_name_no_cause(tmp_path, case, truth):
    run = made_run(tmp_path, [case], **truth)
    assert {row["word"] for row in rows(run, LOSSES)} <= {"inconclusive"}
    assert (change_of(run, "cycles")["ratio"] is None) == ("pairs" in truth)


def test_more_cycles_in_the_same_time_are_no_loss(tmp_path):
    # Runs under traffic are faster, but counts are made as if the baseline took half of its time.
    faster = replace(LAMMPS, effects={"on": 0.95, "aa": 1.0})
    runs = with_tool(samples(faster, pairs=8))
    run = write_run(tmp_path / "run", runs)
    write_counts(run, replace(faster, base=faster.base / 2), runs)
    assert change_of(run, "cycles")["ratio_low"] > 1.5
    assert rows(run, LOSSES) == []


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        ({"on": 1.10, "aa": 1.03}, Verdict.BASELINE_UNSTABLE),
        ({"on": 1.10, "spin": 1.10, "aa": 1.0}, Verdict.NOT_ABOVE_CONTROL),
    ],
)
def test_an_interval_above_1_without_a_verdict_of_a_loss_names_no_cause(tmp_path, effects, verdict):
    case = replace(LAMMPS, effects=effects, noise=0.003)
    run = load_run(made_run(tmp_path, [case], pairs=12, stall_share=0.9))
    (row,) = (row for row in run.results if row.arm == "on")
    assert row.slowdown.low > 1.05
    assert row.verdict is verdict
    assert sentences_of(LOSSES, answer(LOSSES, run)) == []
