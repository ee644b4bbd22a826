"""Why runs are slower, on made counts of known truth."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.questions.question import Question, sentences_of
from analysis.subjects import causes
from analysis.subjects.causes import STALLS, TIME, hit_more, of_r, pearson, worst_ranks
from analysis.subjects.published import paper
from tests.analysis.made_counters import (
    CASES,
    FIGURE_4,
    PRESETS,
    RANKS,
    RATES,
    TOOL,
    counter_row,
    with_tool,
    write_counts,
    write_rows,
)
from tests.analysis.made_counters import STALLS as STALLED
from tests.analysis.subjects.made_causes import LAMMPS, made_run, priced, with_nodes
from tests.analysis.synthetic import LAMMPS as PLAIN
from tests.analysis.synthetic import answered, remedies, samples, write_run

Rows = list[dict[str, Any]]


def rows(run: Path, question: Question) -> Rows:
    return answered(question, run).to_dicts()


def change_of(run: Path, role: str) -> dict[str, Any]:
    changes = rows(run, causes.CHANGES)
    (change,) = (each for each in changes if each["role"] == role and each["treatment"] == "on")
    return change


def test_a_change_is_that_of_the_sums_over_ranks(tmp_path):
    row = change_of(made_run(tmp_path), "L1 misses")
    assert (row["case"], row["baseline"], row["tool"], row["n"]) == ("lammps", "off", TOOL, 8)
    # Made: 4 ranks of 4e7 per second for 177 s, and 1.1 times as many under traffic.
    assert row["off"] == pytest.approx(RANKS * 4e7 * 177, rel=0.05)
    assert row["ratio_low"] <= 1.1 <= row["ratio_high"]


def grown(*pairs: Mapping[int, float]) -> pl.DataFrame:
    """Pairs of counts that grow by these factors, rank by rank; from 10."""
    found = [
        {"block": 0, "pair": pair, "rank": rank, "off": 10.0, "on": 10 * growth}
        for pair, growths in enumerate(pairs)
        for rank, growth in growths.items()
    ]
    numbers = dict.fromkeys(("block", "pair", "rank"), pl.Int64)
    frame = pl.DataFrame(found, schema={**numbers, "off": pl.Float64, "on": pl.Float64})
    names = {"case": "c", "treatment": "on", "tool": TOOL, "role": "L1 misses"}
    return frame.with_columns(pl.lit(text).alias(name) for name, text in names.items())


def worst(*pairs: Mapping[int, float]) -> dict[str, Any]:
    (row,) = worst_ranks(grown(*pairs)).to_dicts()
    return row


def test_the_p_value_of_the_worst_of_two_ranks_by_hand():
    row = worst(*[{0: 1.0, 1: 1.2}] * 5, {0: 1.3, 1: 1.2})
    assert (row["rank"], row["times"], row["leads"]) == (1, 5, 6)
    # Five or six of six, either rank: 2 x (6 + 1) / 64.
    assert row["p"] == pytest.approx(14 / 64)
    assert (row["growth"], row["median_growth"]) == pytest.approx((1.2, 1.1))


def test_pairs_without_a_worst_rank_or_without_a_rank_say_nothing():
    row = worst({0: 1.0, 1: 1.0}, {0: 1.0, 1: 2.0}, {1: 3.0})
    assert (row["rank"], row["times"], row["leads"], row["p"]) == (1, 1, 1, 1.0)
    unknown = grown({0: 1.0, 1: 2.0}, {0: 3.0, 1: 1.0})
    for change in (pl.lit(0.0), pl.lit(None, pl.Float64)):
        lost = pl.when(pair=0, rank=0).then(change).otherwise("off").alias("off")
        assert worst_ranks(unknown.with_columns(lost))["rank"].to_list() == [0]  # the second pair's


@pytest.mark.parametrize("pairs", [[], [{0: 1.0}], [{0: 1.0, 1: 1.0}]])
def test_without_two_ranks_of_which_one_grew_most_there_is_no_worst(pairs):
    assert worst_ranks(grown(*pairs)).is_empty()


def test_a_rank_with_twice_the_misses_is_named_and_others_are_not(tmp_path):
    run = made_run(tmp_path, [CASES[0], LAMMPS])
    write_counts(run, LAMMPS, with_tool(samples(LAMMPS, pairs=8)), worst=2)
    table = answered(causes.CHANGES, run).filter(treatment="on")
    of = {(row["case"], row["role"]): row for row in table.to_dicts()}
    for role in ("L1 misses", "L2 misses", "L3 misses"):
        row = of["lammps", role]
        assert (row["rank"], row["times"], row["leads"]) == (2, 8, 8)
        assert row["growth"] / row["median_growth"] == pytest.approx(2.0, rel=0.1)
        # Most in all 8 pairs of 4 ranks: 4 x (1/4)^8; then Holm over 6 roles of 2 cases.
        assert 4 / 4**8 <= row["p"] <= 12 * 4 / 4**8
    for (case, role), row in of.items():
        if case == "cns" or role in ("cycles", "instructions", "memory stalls"):
            assert row["p"] > 0.05
    named, alike = hit_more(table)
    assert re.fullmatch(
        r"on: one rank is hit more than the others in lammps \(rank 2, whose L\d misses grew"
        r" 2\.[12]\d times, the median rank's 1\.[01]\d times\)\.",
        named,
    )
    assert alike == "on: no rank is shown to be hit more than others in cns."
    # Others wait for the slowest rank, and count instructions meanwhile: that is no hit.
    assert hit_more(table.with_columns(role=pl.lit("instructions"))) == []


def test_r_by_hand() -> None:
    # x - 3 = -2 -1 0 1 2; y - 4 = -3 -1 1 0 3 (sum 0); products 6 1 0 0 6 = 13; squares 10 and 20.
    assert pearson([1, 2, 3, 4, 5], [1, 3, 5, 4, 7]) == pytest.approx(13 / math.sqrt(200))
    # r = 0.6, n = 28: t = 0.6 sqrt(26 / 0.64) = 3.824, of 26 degrees of freedom: p = 0.00074;
    # atanh(0.6) = 0.693147, 1.959964 / sqrt(25) = 0.391993; tanh(0.301154) = 0.29237,
    # tanh(1.085140) = 0.79510.
    correlation = of_r(0.6, 28)
    assert correlation["p"] == pytest.approx(0.00074, abs=5e-6)
    ends = correlation["r_low"], correlation["r_high"]
    assert ends == pytest.approx((0.29237, 0.79510), abs=2e-5)
    # Points on a line.
    assert pearson([0.0, 1.0, 2.0, 3.0], [5.0, 3.0, 1.0, -1.0]) == -1
    assert list(of_r(-1.0, 4).values()) == [-1.0, -1.0, -1.0, 0.0]
    assert set(of_r(None, 4).values()) == {None}


@pytest.mark.parametrize(("points", "critical"), [(4, 0.950), (6, 0.811), (10, 0.632), (30, 0.361)])
def test_critical_values_of_the_textbooks(points: int, critical: float) -> None:
    """Two-sided, 5 %."""
    assert of_r(critical - 0.001, points)["p"] > 0.05 > of_r(critical + 0.001, points)["p"]


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2, 3], [1, 2, 3]), ([1, 1, 1, 1], [1, 2, 3, 4]), ([1, 2, 3, 4], [0] * 4)]
)
def test_too_few_points_or_no_spread_have_no_r(x: list[float], y: list[float]) -> None:
    assert pearson(x, y) is None


def test_what_groves_grant_and_arnold_say_of_significance_follows_from_six_points() -> None:
    """'Not correlated' without traffic, '95% certainty' with it; Table IV, six applications."""
    table = paper()["table_4_pearson_r"]
    assert of_r(table["off"]["time"]["stalled_cycles"], 6)["p"] > 0.9
    assert all(of_r(r, 6)["p"] > 0.8 for r in table["off"]["stalled_cycles"].values())
    assert of_r(table["on"]["time"]["stalled_cycles"], 6)["p"] < 0.05
    assert all(of_r(r, 6)["p"] < 0.05 for r in table["on"]["stalled_cycles"].values())
    for arm in ("off", "on"):
        misses = [r for name, r in table[arm]["time"].items() if name != "stalled_cycles"]
        assert all(of_r(r, 6)["p"] < 0.05 for r in misses)


def test_links_across_workloads_are_those_of_numpy(tmp_path):
    table = rows(made_run(tmp_path, CASES), causes.ACROSS)
    measured = [each for each in table if each["source"] == "measured"]
    across = {(each["treatment"], each["of"], each["role"]): each for each in measured}
    # The truth: sums over ranks without noise, against the times without noise.
    off = {case.name: case.base for case in CASES}
    on = {case.name: case.base * case.effects["on"] for case in CASES}
    misses = [4 * RATES["l1d.replacement"] * t for t in off.values()]
    expected = np.corrcoef(list(off.values()), misses)[0, 1]
    assert across["off", TIME, "L1 misses"]["r"] == pytest.approx(expected, abs=0.01)
    stalls = [
        RATES["cycle_activity.stalls_l3_miss"] * off[name]
        + 0.8 * RATES["cycles"] * (on[name] - off[name])
        for name in off
    ]
    r = np.corrcoef(list(on.values()), stalls)[0, 1]
    assert across["on", TIME, STALLS]["r"] == pytest.approx(r, abs=0.01)
    assert {each["points"] for each in measured} == {6}
    printed = [each for each in table if each["source"] == "published"]
    published = {(each["treatment"], each["of"], each["role"]): each for each in printed}
    # Table IV of the paper.
    stalled = causes.STALLED
    for treatment, source, values in (
        ("off", TIME, [-0.040, 0.941, 0.946, 0.930]),
        ("off", stalled, [None, 0.086, 0.030, 0.068]),
        ("on", TIME, [0.912, 0.959, 0.978, 0.925]),
        ("on", stalled, [None, 0.870, 0.973, 0.997]),
    ):
        of = [published.get((treatment, source, role)) for role in (stalled, *causes.MISSES)]
        assert [each and each["r"] for each in of] == values
    # By hand: tanh(atanh(0.912) -+ 1.96 / sqrt(3)).
    link = published["on", TIME, stalled]
    assert (round(link["r_low"], 2), round(link["r_high"], 2)) == (0.39, 0.99)
    assert (link["p"], link["points"]) == (None, 6)


def test_the_presets_of_figure_4_have_the_papers_table(tmp_path):
    """On a Haswell: misses against stalls, and both against time; no hits, which are said once."""
    run = made_run(tmp_path, CASES, tool=FIGURE_4, processor="GenuineIntel-6-63-2")
    links = {
        (each["treatment"], each["of"], each["role"]): each
        for each in rows(run, causes.ACROSS)
        if each["source"] == "measured"
    }
    stalled = causes.STALLED
    compared = {(of, role) for treatment, of, role in links if treatment == "on"}
    assert compared == {
        *((TIME, role) for role in ("cycles", stalled, *causes.MISSES)),
        *((stalled, role) for role in causes.MISSES),
    }
    # The truth: of stalls as below for memory stalls; misses grow with the time without traffic.
    on = {case.name: case.base * case.effects["on"] for case in CASES}
    stalls = [
        PRESETS["PAPI_STL_ICY"] * case.base
        + 0.8 * PRESETS["PAPI_TOT_CYC"] * (on[case.name] - case.base)
        for case in CASES
    ]
    misses = [case.base for case in CASES]
    r = np.corrcoef(list(on.values()), stalls)[0, 1]
    assert links["on", TIME, stalled]["r"] == pytest.approx(r, abs=0.01)
    r = np.corrcoef(stalls, misses)[0, 1]
    assert links["on", stalled, "L2 misses"]["r"] == pytest.approx(r, abs=0.01)
    assert links["on", TIME, stalled]["p"] < 0.05
    absent = [(each["what"], each["reason"]) for each in rows(run, causes.ABSENT)]
    assert ("L2 hits, L3 hits", "papi counts none there") in absent
    assert len(absent) == len({what for what, _ in absent})


def test_stalled_cycles_are_not_called_stalls_on_memory(tmp_path):
    table = answered(causes.LOSSES, made_run(tmp_path, tool=FIGURE_4))
    (row,) = table.to_dicts()
    assert (row["role"], row["word"]) == (causes.STALLED, "stalled cycles")
    assert row["share_low"] <= 0.8 <= row["share_high"]
    (text,) = sentences_of(causes.LOSSES, table)
    assert text.endswith(
        " of the extra cycles are stalled cycles: most of the loss is stalled cycles."
    )


def test_a_rank_with_twice_the_misses_is_named_by_the_presets_too(tmp_path):
    run = made_run(tmp_path, [LAMMPS], tool=FIGURE_4, worst=2)
    (text,) = hit_more(answered(causes.CHANGES, run).filter(treatment="on"))
    assert text.startswith("on: one rank is hit more than the others in lammps (rank 2, whose L")


def test_links_within_a_workload_have_its_runs_as_points(tmp_path):
    table = rows(made_run(tmp_path), causes.WITHIN)
    within = {(each["treatment"], each["of"], each["role"]): each for each in table}
    cycles = within["on", TIME, "cycles"]
    assert (cycles["case"], cycles["points"]) == ("lammps", 8)
    # Without traffic the made counts do not depend on the time of a run.
    assert within["off", TIME, "cycles"]["p"] > 0.05


@pytest.mark.parametrize(
    ("stalls", "word", "said"),
    [
        (0.8, "stalls on memory", "the loss is stalls on memory."),
        (0.2, "something else", "most of the loss is something else."),
    ],
)
def test_the_extra_cycles_are_told_apart(tmp_path, stalls, word, said):
    table = answered(causes.LOSSES, made_run(tmp_path, stall_share=stalls))
    (row,) = table.to_dicts()
    assert (row["case"], row["treatment"], row["word"]) == ("lammps", "on", word)
    assert row["share_low"] <= stalls <= row["share_high"]
    (text,) = sentences_of(causes.LOSSES, table)
    assert text.startswith(f"lammps, on: {row['share']:.0%} (")
    assert text.endswith(said)


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
    run = made_run(tmp_path, [case], **truth)
    assert {row["word"] for row in rows(run, causes.LOSSES)} <= {"inconclusive"}
    assert (change_of(run, "cycles")["ratio"] is None) == ("pairs" in truth)


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
    lines = []
    for each in runs:
        tool, events = counted[each.arm.partition("tool=")[2]]
        lines += [counter_row(each.key, e, v * each.fom, tool=tool) for e, v in events.items()]
    write_rows(run, "melt", lines)
    changes = {(each["tool"], each["role"]): each for each in rows(run, causes.CHANGES)}
    assert set(changes) == {("perf_stat", "cycles"), (TOOL, "cycles"), (TOOL, "memory stalls")}
    # on / off of the same tool is 2; across tools it would be 6, 2/3 or a median between.
    for change in changes.values():
        assert change["ratio"] == pytest.approx(2.0, rel=0.02)
        assert change["n"] == 8
    # Cycles are 1e9 per second of a run that has the tool with most roles: 8 runs, one line.
    within = [
        (each["points"], round(each["r"], 6))
        for each in rows(run, causes.WITHIN)
        if (each["treatment"], each["role"]) == ("off", "cycles")
    ]
    assert within == [(8, 1.0)]


def test_more_cycles_in_the_same_time_are_no_loss(tmp_path):
    # Runs under traffic are faster; counts are made as if the baseline took half of its time.
    faster = replace(LAMMPS, effects={"on": 0.95, "aa": 1.0})
    runs = with_tool(samples(faster, pairs=8))
    run = write_run(tmp_path / "run", runs)
    write_counts(run, replace(faster, base=faster.base / 2), runs)
    assert change_of(run, "cycles")["ratio_low"] > 1.5
    assert rows(run, causes.LOSSES) == []


def test_what_was_not_counted_is_named_with_the_reason_and_not_used(tmp_path):
    run = made_run(tmp_path, processor="GenuineIntel-6-85-7")
    file = run / "counters" / "lammps.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if line["event"] == "cycles":
            line |= {"value": None, "state": "not supported", "running_share": None}
        if line["event"] == "l1d.replacement" and line["rank"] == 1:
            line |= {"state": "multiplexed", "running_share": 0.5}
    write_rows(run, "lammps", lines)
    absent = {row["what"]: (row["where"], row["reason"]) for row in rows(run, causes.ABSENT)}
    assert absent["cycles"] == ("some run or all", "not supported")
    assert absent["L1 misses"][1].startswith("the events took turns")
    assert absent["DDIO misses"] == ("Cascade Lake", "perf_stat counts none there")
    for question in (causes.CHANGES, causes.ACROSS, causes.WITHIN):
        measured = (row for row in rows(run, question) if row.get("source") != "published")
        assert not {"L1 misses", "cycles"} & {row["role"] for row in measured}


def test_a_processor_of_no_known_family_lacks_all(tmp_path):
    (row,) = rows(made_run(tmp_path, processor="GenuineIntel-6-1-1"), causes.ABSENT)
    assert (row["what"], row["where"]) == ("all roles", "processor GenuineIntel family 6, model 1")


@pytest.mark.parametrize(("price", "beyond"), [(1.05, True), (0.9803, True), (0.9805, False)])
def test_a_tool_that_changes_the_figure_by_more_than_the_margin_is_told(tmp_path, price, beyond):
    (row,) = rows(priced(tmp_path, price), causes.PRICES)
    assert (row["tool"], row["word"] == "changed by the tool") == ("p", beyond)
    # The made runs have no noise but the pairs', which cancels.
    assert row["ratio"] == pytest.approx(price)


def test_a_tool_without_runs_without_it_has_no_price(tmp_path):
    (row,) = rows(made_run(tmp_path), causes.PRICES)
    assert (row["case"], row["tool"], row["ratio"], row["n"]) == ("lammps", TOOL, None, 0)
    assert row["word"] == "inconclusive"


def counted(run: Path) -> dict[tuple[str, str], list[float]]:
    """Tool and event -> values of the treatments off and on."""
    table = rows(run, causes.COUNTERS)
    of = {(row["tool"], row["event"], row["arm"]): row["value"] for row in table}
    return {(tool, event): [of[tool, event, arm] for arm in ("off", "on")] for tool, event, _ in of}


def test_medians_off_and_on_are_sums_over_nodes_but_of_shares_and_frequencies(tmp_path):
    run = with_nodes(tmp_path, samples(PLAIN, pairs=8))
    # 100 + 150 and 300 + 450; 0.5 + 0.75 s; the mean of 2 and 3 GHz; of 10 % and 15 %, of 40 % and
    # 60 %, of 4 % and 6 %. One counter stayed 0.
    assert counted(run) == {
        ("node", "context-switches"): [250, 750],
        ("node", "enp225s0f1np1:tx_prio3_pause_duration"): pytest.approx([1.25, 6.25]),
        ("node", "frequency"): [2.5e9, 2.5e9],
        ("node", "eth0:outbound_pci_stalled_wr"): pytest.approx([0.125, 0.5]),
        ("node", "eth1:outbound_pci_stalled_wr"): pytest.approx([0.05, 0.05]),
    }
    # The device's own counter is the role of PCIe stalls: of the device that stalled more, not the
    # sum of both; then the mean over nodes.
    row = change_of(run, "PCIe stalls")
    assert (row["tool"], row["n"]) == ("node", 8)
    assert (row["off"], row["on"], row["ratio"]) == pytest.approx((0.125, 0.5, 4))


def test_a_node_is_no_tool_and_what_nodes_lack_is_named_once(tmp_path):
    absent = {"resctrl": "resctrl mounted"}
    run = with_nodes(tmp_path, samples(PLAIN, pairs=6), absent)
    assert rows(run, causes.PRICES) == []
    (row,) = rows(run, causes.ABSENT)
    lacking = {"what": "resctrl", "where": "2 nodes", "reason": "needs resctrl mounted"}
    assert row == {**row, **lacking}
