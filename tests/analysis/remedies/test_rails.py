"""Tests figures 1 to 3 of the multirail study, with made runs whose true values are known."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from analysis.questions.question import answer
from analysis.report.data import RunData, load_run
from analysis.report.plots import View
from analysis.subjects import mpi_calls, multirail, rail_policies
from records.sample import Better
from tests.analysis.made_counters import write_rows
from tests.analysis.remedies.made_rails import (
    CALLS,
    MESSAGES,
    SHARES,
    TIMES,
    WRITERS,
    case,
    rails_run,
)
from tests.analysis.synthetic import answered, crossed, loaded_run, samples

# Made runs of a multirail campaign, with known truth. Nothing here was measured.


PAIRS = 10


def test_figure_1_has_one_value_for_each_pair(tmp_path: Path) -> None:
    table = answered(mpi_calls.CALLS, rails_run(tmp_path, case(), pairs=PAIRS))
    assert table["kind"].to_list() == list(SHARES)
    assert table["n"].to_list() == [PAIRS] * 2  # off and aa of a pair give one value
    assert table["share"].to_list() == pytest.approx(list(SHARES.values()), rel=0.02)
    assert table["message_b"].to_list() == list(MESSAGES.values())


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_figure_2_has_the_speed_of_each_policy(tmp_path: Path, better: Better) -> None:
    table = answered(rail_policies.POLICIES, rails_run(tmp_path, case(better=better)))
    truth = {("mpi_rail", arm, p): 1 / time for arm in ("off", "on") for p, time in TIMES.items()}
    truth |= {("writer_rail", "on", policy): 1 / time for policy, time in WRITERS.items()}
    expected = {key: speed for key, speed in truth.items() if key[2] != "default"}
    rows = {(row["factor"], row["arm"], row["policy"]): row for row in table.to_dicts()}
    assert set(rows) == set(expected)
    for key, speed in expected.items():
        row = rows[key]
        assert row["speed"] == pytest.approx(speed, rel=0.01)
        word = "faster" if speed > 1 else "slower"
        assert row["word"] in {1.0: ("no difference", "inconclusive")}.get(speed, (word,))
        ratio = row["fom"] / row["fom_reference"]
        assert (ratio if better == "higher" else 1 / ratio) == pytest.approx(speed, rel=0.02)


def test_figure_3_has_every_run_in_order_and_what_a_policy_changes(tmp_path: Path) -> None:
    run = load_run(rails_run(tmp_path, case(), pairs=PAIRS))
    single = answer(mpi_calls.RUN_TIMES, run).filter(kind="collective").sort("number")
    assert single["number"].to_list() == list(range(1, 2 * PAIRS * len(TIMES) + 1))
    assert single["start_s"].is_sorted()
    # Times of synthetic runs are about 6 s, times the pair's factor.
    default = single.filter(policy="default")["time_s"].median()
    assert default == pytest.approx(6 * SHARES["collective"], rel=0.1)
    changes = answer(mpi_calls.POLICY_RATIOS, run).to_dicts()
    assert len(changes) == 2 * (len(TIMES) - 1)
    for row in changes:
        truth = CALLS[row["policy"]][row["kind"]]
        assert row["ratio"] == pytest.approx(truth, rel=0.03)
        # Only time in MPI calls counts: with nic1, the application is slower, but its collective
        # calls are not.
        words = ("more time",) if truth > 1 else ("no difference", "inconclusive")
        assert row["word"] in words


def test_a_pair_is_left_out_if_a_rank_has_no_value(tmp_path: Path) -> None:
    run = rails_run(tmp_path, case(), seed=2)
    path = run / "counters" / "umt.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "/0/3/" in line["key"] and line["rank"] == 1:
            line |= {"value": None, "state": "not counted"}
    write_rows(run, "umt", lines)
    loaded = load_run(run)
    pairs = [
        answer(question, loaded)["n"].to_list()
        for question in (mpi_calls.CALLS, mpi_calls.POLICY_RATIOS)
    ]
    assert pairs == [[PAIRS - 1] * 2, [PAIRS - 1] * 4]


def test_a_policy_has_a_speed_at_each_level_of_the_other_factors(tmp_path: Path) -> None:
    """nic1 takes 1.1 times as long, with a reserved core 1.3 times, under half the rate 1.2."""
    times = {
        "off@mpi_rail=nic1": 1.1,
        "off@reserved_cores=1": 1.0,
        "off@mpi_rail=nic1,reserved_cores=1": 1.3,
        "on": 2.0,
        "on@mpi_rail=nic1": 2.2,
        "on@rate=50%": 1.5,
        "on@rate=50%,mpi_rail=nic1": 1.8,
    }
    crossed_case = crossed(
        replace(case(noise=0.0), effects=times),
        {"mpi_rail": "default", "reserved_cores": 0},
        {"rate": "full"},
    )
    run = loaded_run(tmp_path / "run", samples(crossed_case, pairs=6))
    rows = answer(rail_policies.POLICIES, run).to_dicts()
    slower = {"off": 1.1, "off@reserved_cores=1": 1.3, "on": 1.1, "on@rate=50%": 1.2}
    assert {row["arm"]: 1 / row["speed"] for row in rows} == pytest.approx(slower)


def test_calls_that_a_run_never_made_are_not_too_few_pairs(tmp_path: Path) -> None:
    run = rails_run(tmp_path, case(), pairs=PAIRS)
    path = run / "counters" / "umt.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["event"].startswith("collective-"):
            line["value"] = 0.0
    write_rows(run, "umt", lines)
    for row in answered(mpi_calls.POLICY_RATIOS, run).filter(kind="collective").to_dicts():
        assert (row["n"], row["ratio"], row["word"]) == (PAIRS, None, "inconclusive")
        assert row["why"] == "not every run made such calls"


@pytest.mark.parametrize(
    ("speed", "floor", "word"),
    [
        ((1.05, 1.02, 1.08), (0.99, 1.01), "faster"),
        ((0.95, 0.92, 0.98), (0.99, 1.01), "slower"),
        ((1.05, 1.02, 1.08), (0.94, 1.06), "inconclusive"),
        ((1.0, 0.99, 1.01), (0.99, 1.01), "no difference"),
        ((1.0, 0.97, 1.01), (0.99, 1.01), "inconclusive"),
        ((1.05, 1.02, 1.08), (1.01, 1.03), "inconclusive: baseline unstable"),
        ((1.05, 1.02, 1.08), (None, None), "inconclusive: baseline not repeated"),
        ((None, None, None), (0.99, 1.01), "inconclusive: 5, fewer than 6 pairs"),
    ],
)
def test_the_word_on_a_policy_follows_from_the_intervals(speed, floor, word) -> None:
    names = ("speed", "speed_low", "speed_high", "floor_low", "floor_high")
    row = dict(zip(names, (*speed, *floor), strict=True))
    row |= {"n": 5, "margin": 0.02, "fom": 1.0, "fom_reference": 1.0}
    row |= dict.fromkeys(("factor", "arm", "case", "policy", "reference", "unit"), "")
    rows = pl.DataFrame([row], schema_overrides=dict.fromkeys(names, pl.Float64))
    (shown,) = answer(replace(rail_policies.POLICIES, rows=lambda _: rows), None).to_dicts()
    assert ": ".join(filter(None, (shown["word"], shown["why"]))) == word


def published_texts(run: RunData) -> dict[str, list[str]]:
    """Return section -> its sentences."""
    sections = (*mpi_calls.SECTIONS, *rail_policies.SECTIONS)
    views = {section.name: section.make_view(run) for section in sections}
    return {name: view.sentences for name, view in views.items() if isinstance(view, View)}


def test_published_figures_of_a_workload_are_shown_beside_its_own(tmp_path: Path) -> None:
    """Published are gains of 3.2 % for UMT, 2 % for AMG, and 18 % for UMT's point-to-point calls.

    The workload counts, not the name of the case. Other workloads get no sentence.
    """
    run = load_run(rails_run(tmp_path, replace(case(better="higher"), name="umt_openmp")))
    umt, stream = (
        replace(run, samples=run.samples.with_columns(workload=pl.lit(workload)))
        for workload in ("umt", "stream")
    )
    sentences = published_texts(umt)
    source = "256 nodes, two QDR cards each, 24 ranks a node, 80 to 500 runs"
    (figure_2,) = sentences["rails"]
    assert source in figure_2
    assert figure_2.endswith("): umt: about 3.2 % faster with both rails.")
    assert "as much as 18 % faster with both rails" in sentences["rail_runs"][0]
    assert sentences["rail_calls"] == sentences["rail_runs"]
    assert "umt: more than half of the time" in sentences["mpi_calls"][0]
    assert "2 %" in multirail.published()["figure_2"]["amg"]
    assert published_texts(stream) == {name: [] for name in sentences}
