"""Tests the processor time that the system spends for each byte of traffic, with made runs.

The true time is given in seconds per GB. A background without traffic is added to it.
"""

import json
import re
from dataclasses import replace

import polars as pl
import pytest

from analysis.questions.question import answer, sentences_of
from analysis.report.data import load_run
from analysis.report.page import render
from analysis.subjects.processing import PROCESSOR_TIME
from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.remedies.made_offload import made_run
from tests.analysis.synthetic import answered


def ends(*arguments, claim=None, **more):
    run = load_run(made_run(*arguments, **more))
    facts = {"site": {"nic": {"processing": claim}}}
    run = replace(run, header=replace(run.header, facts=facts))
    return {row["end"]: row for row in answer(PROCESSOR_TIME, run).to_dicts()}


@pytest.mark.parametrize(
    ("s_gb", "word"), [(0.001, "offload"), (0.12, "onload"), (0.035, "inconclusive")]
)
def test_the_word_follows_the_time_per_byte_and_stands_beside_the_claim(tmp_path, s_gb, word):
    row = ends(tmp_path, s_gb, claim="onload")["target"]
    assert (row["case"], row["arm"], row["n"]) == ("melt", "on", 10)
    assert row["cpu_s_b"] == pytest.approx(s_gb * 1e-9, rel=0.05, abs=2e-12)
    assert row["cpu_s_b_low"] < row["cpu_s_b"] < row["cpu_s_b_high"]
    # The time is also given in cores of a node, at the rate of the made writers to each of the two
    # targets. Groves et al. compare it with one core.
    assert row["cores"] == pytest.approx(3.9e9 * row["cpu_s_b"], rel=0.03)
    assert (row["word"], row["claim"]) == (word, "onload")
    assert row["transport"] == "InfiniBand"


def test_counts_of_all_nodes_together_are_means_over_the_nodes(tmp_path):
    """Jobs of many nodes have one row of each counter for all nodes, with their sum."""
    run = made_run(tmp_path, 0.12)
    apart = {row["end"]: row for row in answered(PROCESSOR_TIME, run).to_dicts()}
    path = run / "counters" / "melt.jsonl"
    values = {}
    for count in map(json.loads, path.read_text().splitlines()):
        values.setdefault((count["key"], count["tool"], count["event"]), []).append(count["value"])
    together = [
        counter_row(
            key, event, sum(node_values), tool=tool, rank=-1, nodes=len(node_values), unit="s"
        )
        for (key, tool, event), node_values in values.items()
    ]
    write_rows(run, "melt", together)
    for row in answered(PROCESSOR_TIME, run).to_dicts():
        for figure in ("cores", "cpu_s_b"):
            assert row[figure] == pytest.approx(apart[row["end"]][figure])


@pytest.mark.parametrize(
    ("s_gb", "against"),
    [(0.001, "no more than"), (0.12, "more than"), (0.005, "not shown to differ from")],
)
def test_the_share_of_a_core_is_compared_with_that_of_the_paper(tmp_path, s_gb, against):
    """At 3.9 GB/s into each target, 0.001 s/GB are 0.4 % of its core, and 0.005 s/GB are 2 %."""
    (text,) = sentences_of(PROCESSOR_TIME, answered(PROCESSOR_TIME, made_run(tmp_path, s_gb)))
    match = re.search(
        r"melt on: traffic took (\S+) % of a core of a target .*, (.*?) the 2 %", text
    )
    assert float(match[1]) == pytest.approx(100 * 3.9 * s_gb, rel=0.35)
    assert match[2] == against


@pytest.mark.parametrize(
    ("low", "high", "against"),
    [
        (0.02, 0.05, "not shown to differ from"),
        (0.01, 0.02, "no more than"),
        (0.03, 0.05, "more than"),
    ],
)
def test_an_interval_that_reaches_2_per_cent_is_not_more_than_that(low, high, against):
    row = {"case": "melt", "arm": "on", "end": "target", "same_host": False, "cores": 0.02}
    table = pl.DataFrame([{**row, "cores_low": low, "cores_high": high}])
    (text,) = sentences_of(PROCESSOR_TIME, table)
    assert f"%), {against} the 2 % of Groves" in text


def test_the_section_states_its_limits_per_gigabyte():
    limits = "from 0.05 s/GB on the processor receives (onload), below 0.02 the interface does"
    assert limits in PROCESSOR_TIME.text


def test_runs_that_take_longer_under_traffic_are_charged_for_the_traffic_only(tmp_path):
    """Runs of `on` take twice as long, so they have twice the background.

    This is not counted as time of the traffic.
    """
    row = ends(tmp_path, 0.0)["target"]
    assert row["cpu_s_b_low"] < 0 < row["cpu_s_b_high"]
    # If it were, the background of 0.16 s in each second at 7.8 GB/s would be 0.02 s/GB.
    assert row["cpu_s_b_high"] < 0.003e-9


def test_an_origin_has_its_own_time_and_no_word(tmp_path):
    row = ends(tmp_path, 0.001, 0.2, claim="offload")["origin"]
    assert row["cpu_s_b"] == pytest.approx(0.2e-9, rel=0.05)
    assert (row["word"], row["claim"]) == ("-", None)


ABSENT_COUNTER = "kernel-threads-time"


@pytest.mark.parametrize(
    ("s_gb", "changes", "reason"),
    [
        (0.12, {"pairs": 5}, "fewer than 6 pairs"),
        (0.001, {"without": (ABSENT_COUNTER,)}, "not all counters exist on the nodes"),
        # If a part of the time is already enough for onload, a missing counter does not matter.
        (0.12, {"without": (ABSENT_COUNTER,)}, None),
        (0.12, {"origin": "synthetic-0"}, "share a host"),
    ],
)
def test_few_pairs_missing_counters_or_a_shared_host_are_inconclusive(
    tmp_path, s_gb, changes, reason
):
    row = ends(tmp_path, s_gb, claim="onload", **changes)["target"]
    assert row["word"] == ("inconclusive" if reason else "onload")
    assert (reason or "") in row["why"]
    assert bool(row["why"]) == bool(reason)
    assert (row["cpu_s_b"] is None) == ("pairs" in changes)
    assert (ABSENT_COUNTER in row["counters"]) == ("without" not in changes)


@pytest.mark.usefixtures("undrawn")
def test_a_section_without_a_result_is_one_line(tmp_path):
    text = render([load_run(made_run(tmp_path, 0.12, origin="synthetic-0"))])
    section = text[text.index('id="r0processing"') :].partition("</section>")[0]
    assert "<details><summary>Processor time of the traffic" in section
    assert "share a host" in section.partition("<table")[0]
