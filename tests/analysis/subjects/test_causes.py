import html
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from analysis.effects.estimate import results
from analysis.report.data import RunData, load_run
from analysis.report.page import make_reports, write_data
from analysis.samples.columns import read_run
from analysis.samples.pairs import judged
from analysis.statistics.interval import Estimate
from analysis.subjects.causes import (
    STALLS,
    TIME,
    Causes,
    Loss,
    causes,
    causes_view,
    counters_view,
    hit_more,
    p_text,
    sentence,
    worst_rank,
)
from records.sample import Sample
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
from tests.analysis.synthetic import STREAM, on_hosts, remedies, samples, write_run

LAMMPS = CASES[2]


def made_run(
    folder: Path, cases=(LAMMPS,), *, pairs: int = 8, seed: int = 1, processor: str = "", **truth
) -> Path:
    runs = {case.name: with_tool(samples(case, pairs=pairs, seed=seed)) for case in cases}
    found = [each for own in runs.values() for each in own]
    record = {"nodes": {"synthetic-0": {"processor": processor}}}
    run = write_run(folder / "run", found, record=record)
    for case in cases:
        write_counts(run, case, runs[case.name], seed=seed, **truth)
    return run


def made(folder: Path, cases=(LAMMPS,), **truth) -> Causes:
    return causes_of(made_run(folder, cases, **truth))


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


def grown(*pairs: Mapping[int, float]) -> pl.DataFrame:
    """Pairs of counts that grow by these factors, rank by rank; from 10."""
    rows = [
        {"block": 0, "pair": pair, "rank": rank, "off": 10.0, "on": 10 * growth}
        for pair, growths in enumerate(pairs)
        for rank, growth in growths.items()
    ]
    schema = {"block": pl.Int64, "pair": pl.Int64, "rank": pl.Int64, "off": pl.Float64}
    return pl.DataFrame(rows, schema={**schema, "on": pl.Float64})


def test_the_p_value_of_the_worst_of_two_ranks_by_hand():
    found = worst_rank(grown(*[{0: 1.0, 1: 1.2}] * 5, {0: 1.3, 1: 1.2}))
    assert (found.rank, found.times, found.pairs) == (1, 5, 6)
    # Five or six of six, either rank: 2 x (6 + 1) / 64.
    assert found.p == pytest.approx(14 / 64)
    assert (found.growth, found.median_growth) == pytest.approx((1.2, 1.1))


def test_pairs_without_a_worst_rank_or_without_a_rank_say_nothing():
    found = worst_rank(grown({0: 1.0, 1: 1.0}, {0: 1.0, 1: 2.0}, {1: 3.0}))
    assert (found.rank, found.times, found.pairs, found.p) == (1, 1, 1, 1.0)
    unknown = grown({0: 1.0, 1: 2.0}, {0: 3.0, 1: 1.0})
    for change in (pl.lit(0.0), pl.lit(None, pl.Float64)):
        lost = pl.when(pair=0, rank=0).then(change).otherwise("off").alias("off")
        assert worst_rank(unknown.with_columns(lost)).rank == 0  # the second pair's


@pytest.mark.parametrize("pairs", [[], [{0: 1.0}], [{0: 1.0, 1: 1.0}]])
def test_without_two_ranks_of_which_one_grew_most_there_is_no_worst(pairs):
    assert worst_rank(grown(*pairs)) is None


def test_ranks_that_are_hit_alike_are_rarely_called_different():
    rng = np.random.default_rng(1)
    p = [
        worst_rank(grown(*[dict(enumerate(row)) for row in rng.lognormal(0.3, 0.1, (10, 8))])).p
        for _ in range(200)
    ]
    assert sum(each < 0.05 for each in p) <= stats.binom.ppf(0.999, 200, 0.05)


def test_a_rank_with_twice_the_misses_is_named_and_others_are_not(tmp_path):
    cns, lammps = CASES[0], LAMMPS
    run = made_run(tmp_path, [cns, lammps])
    runs = with_tool(samples(lammps, pairs=8))
    write_counts(run, lammps, runs, worst=2)
    found = causes_of(run)
    worst = {(each.case, each.role): each.worst for each in found.changes if each.treatment == "on"}
    for role in ("L1 misses", "L2 misses", "L3 misses"):
        of = worst["lammps", role]
        assert (of.rank, of.times, of.pairs) == (2, 8, 8)
        assert of.growth / of.median_growth == pytest.approx(2.0, rel=0.1)
        # Most in all 8 pairs of 4 ranks: 4 x (1/4)^8; then Holm over 6 roles of 2 cases.
        assert 4 / 4**8 <= of.p <= 12 * 4 / 4**8
    for case, role in worst:
        if case == "cns" or role in ("cycles", "instructions", "memory stalls"):
            assert worst[case, role].p > 0.05
    named, alike = hit_more(found.changes)
    assert re.fullmatch(
        r"on: one rank is hit more than the others in lammps \(rank 2, whose L\d misses grew"
        r" 2\.[12]\d times, the median rank's 1\.[01]\d times\)\.",
        named,
    )
    assert alike == "on: no rank is shown to be hit more than others in cns."
    page = make_reports([run])[0].page.read_text()
    section = html.unescape(page[page.index('id="r0why"') :].partition("</section>")[0])
    assert named in section
    assert alike in section
    assert "rank 2, 8 of 8" in section


def test_more_work_of_a_rank_is_no_hit(tmp_path):
    # Others wait for the slowest rank, and count instructions meanwhile.
    changes = made(tmp_path, worst=2).changes
    renamed = [replace(each, role="instructions") for each in changes]
    assert hit_more(renamed) == []


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


# On the page.


def view(run: Path):
    loaded: RunData = load_run(run)
    found = causes_view(loaded, "w")
    assert found
    return found


@pytest.fixture(scope="module")
def of_all_cases(tmp_path_factory):
    return view(made_run(tmp_path_factory.mktemp("all"), CASES))


def test_the_published_table_stands_beside_the_measured_one(of_all_cases):
    found = of_all_cases
    assert found.columns == ("memory stalls", "L1 misses", "L2 misses", "L3 misses")
    rows = {(row.treatment, row.of, row.published): row.links for row in found.table.rows}
    published = {
        (treatment, of): [link and link.correlation.r for link in links]
        for (treatment, of, is_published), links in rows.items()
        if is_published
    }
    # Table IV of the paper.
    assert published == {
        ("off", "time"): [-0.040, 0.941, 0.946, 0.930],
        ("off", "memory stalls"): [None, 0.086, 0.030, 0.068],
        ("on", "time"): [0.912, 0.959, 0.978, 0.925],
        ("on", "memory stalls"): [None, 0.870, 0.973, 0.997],
    }
    # By hand: tanh(atanh(0.912) -+ 1.96 / sqrt(3)).
    link = rows["on", "time", True][0]
    assert (round(link.correlation.low, 2), round(link.correlation.high, 2)) == (0.39, 0.99)
    assert (link.p, link.points) == (None, 6)
    assert rows["on", "time", False][0].points == 6
    assert rows["on", "memory stalls", False][0] is None
    assert len(found.table.rows) == 8
    # Roles that the paper has not are apart.
    assert {(link.treatment, link.to) for link in found.table.others} == {
        (treatment, role) for treatment in ("off", "on") for role in ("cycles", "instructions")
    }
    assert [table.name for table in found.cases] == [case.name for case in CASES]
    assert {row.links[1].points for table in found.cases for row in table.rows} == {8}
    for case in CASES:
        assert f">{case.name}</text>" in found.svg


@pytest.mark.parametrize(
    ("processor", "told"),
    [
        ("GenuineIntel-6-85-7", ("DDIO misses", "Cascade Lake")),
        ("AuthenticAMD-26-2-1", ("counts no memory stalls", "Zen 5")),
        ("GenuineIntel-6-1-1", ("GenuineIntel-6-1-1",)),
    ],
)
def test_what_a_processor_lacks_is_printed(tmp_path, processor, told):
    (note,) = view(made_run(tmp_path, processor=processor)).notes
    assert all(word in note for word in told)


def test_a_role_that_was_not_counted_is_named_with_the_reason(tmp_path):
    run = made_run(tmp_path, processor="GenuineIntel-6-85-7")
    file = run / "counters" / "lammps.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        if row["event"] == "cycles":
            row |= {"value": None, "state": "not supported", "running_share": None}
        if row["event"] == "l1d.replacement" and row["rank"] == 1:
            row |= {"state": "multiplexed", "running_share": 0.5}
    write_rows(run, "lammps", rows)
    notes = view(run).notes
    assert notes[0].endswith(": cycles: not supported")
    assert "L1 misses: the events took turns" in notes[1]


def priced(folder: Path, price: float) -> Path:
    times = {"on": 2.0, "off@tool=p": price, "on@tool=p": 2.0 * price}
    found = samples(remedies(times=times), pairs=8)
    run = write_run(folder / "run", found)
    wrapped = [each for each in found if each.factors["tool"] == "p"]
    write_rows(run, "melt", [counter_row(each.key, "e", 1.0, tool="p") for each in wrapped])
    return run


@pytest.mark.parametrize(("price", "beyond"), [(1.05, True), (0.9803, True), (0.9805, False)])
def test_a_tool_that_changes_the_figure_by_more_than_the_margin_is_told(tmp_path, price, beyond):
    (row,) = view(priced(tmp_path, price)).prices
    assert (row.tool, row.beyond) == ("p", beyond)
    # The made runs have no noise but the pairs', which cancels.
    assert row.ratio.value == pytest.approx(price)


def test_a_tool_without_runs_without_it_has_no_price(tmp_path):
    (row,) = view(made_run(tmp_path)).prices
    assert (row.case, row.tool, row.ratio, row.beyond) == ("lammps", TOOL, None, None)


@pytest.mark.parametrize(
    ("low", "high", "fact"),
    [
        (0.7, 0.9, "loss is stalls on memory."),
        (0.1, 0.3, "most of the loss is something else."),
    ],
)
def test_what_a_loss_is(low, high, fact):
    share = Estimate((low + high) / 2, low, high, 0.95)
    text = sentence(Loss("lammps", "on", TOOL, share))
    assert f"{share.value:.0%} ({low:.0%} to {high:.0%}) of the extra cycles" in text
    assert text.endswith(fact)


@pytest.mark.parametrize(
    ("p", "text"), [(None, "-"), (0.0004, "p < 0.001"), (0.0116, "p = 0.012"), (1.0, "p = 1.000")]
)
def test_p_values(p, text):
    assert p_text(p) == text


def test_the_page_has_the_section_and_its_figures_and_says_that_it_is_emulated(tmp_path):
    (report,) = make_reports([made_run(tmp_path)])
    text = report.page.read_text()
    assert len(re.findall("published, Table IV", text)) == 4
    assert "mathdefault" not in text  # ticks are numbers, not the source of a formula
    section = text[text.index('id="r0why"') :]
    assert "Emulated RDMA, not RDMA hardware." in section[: section.index("</section>")]
    (file,) = (path for path in report.data if path.name == "why.json")
    document = json.loads(file.read_text())
    assert document["schema"] == 2
    (found,) = document["runs"].values()
    assert set(found) == {"changes", "links", "losses", "without"}
    (stalls,) = (
        row
        for row in found["changes"]
        if (row["case"], row["role"], row["treatment"]) == ("lammps", "memory stalls", "on")
    )
    assert stalls["ratio"]["low"] > 1


def test_sums_over_ranks_and_what_limits_them(tmp_path):
    runs, rows = samples(STREAM, pairs=6), []
    for sample in runs:
        for rank in (0, 1):
            count, key = 100.0 if sample.arm == "off" else 150.0, sample.key
            time = counter_row(key, "task-clock", 0.5, rank=rank, unit="s", state="multiplexed")
            none = counter_row(key, "cycles", None, rank=rank, state="not supported")
            rows += [counter_row(key, "faults", count, rank=rank), time, none]
    folder = write_run(tmp_path / "run", runs)
    write_rows(folder, "stream", rows)
    run = load_run(folder)
    view = counters_view(run, "stream")
    assert view.treatments[:2] == ["off", "on"]
    told = {row.event: (row.values[:2], row.states) for row in view.rows}
    assert "counters.parquet" in [path.name for path in write_data(tmp_path, [run])]
    assert told == {
        "faults": (["200", "300"], ""),
        "task-clock": (["1.000 s", "1.000 s"], "multiplexed"),
        "cycles": (["-", "-"], "not supported"),
    }


#: Event -> unit, and the value of a run on the first of two nodes.
Values = Mapping[str, tuple[str, Callable[[Sample], float]]]


def is_on(sample: Sample) -> bool:
    return sample.arm.startswith("on")


def stalled(sample: Sample) -> float:
    """A tool changes it too."""
    if "tool=p" in sample.arm:
        return 0.6
    return 0.4 if is_on(sample) else 0.1


MADE: Values = {
    "context-switches": ("count", lambda s: 300.0 if is_on(s) else 100.0),
    "enp225s0f1np1:tx_prio3_pause_duration": ("s", lambda s: 2.5 if is_on(s) else 0.5),
    "frequency": ("Hz", lambda _: 2e9),
    "eth0:rx_dropped": ("count", lambda _: 0.0),
    "eth0:outbound_pci_stalled_wr": ("1", stalled),
    "eth1:outbound_pci_stalled_wr": ("1", lambda _: 0.04),
}


def with_nodes(folder: Path, runs: list[Sample], absent: Mapping[str, str] = {}) -> Path:
    """A run whose second node counts what the first does, and a half more."""
    record = {"nodes": {name: {"absent_counters": absent} for name in ("n1", "n2")}}
    there = [on_hosts(each, "n1", "n2") for each in runs]
    run = write_run(folder / "run", there, record=record)
    rows = [
        counter_row(each.key, event, factor * value(each), tool="node", rank=rank, unit=unit)
        for each in runs
        for event, (unit, value) in MADE.items()
        for rank, factor in enumerate((1.0, 1.5))
    ]
    write_rows(run, runs[0].case, rows)
    return run


def test_medians_off_and_on_are_sums_over_nodes_but_of_shares_and_frequencies(tmp_path):
    found = view(with_nodes(tmp_path, samples(LAMMPS, pairs=8)))
    table = found.nodes["lammps"]
    assert table.treatments == ["off", "on", "aa"]
    rows = {row.event: row.values[:2] for row in table.rows}
    # 100 + 150 and 300 + 450; 0.5 + 0.75 s; the mean of 2 and 3 GHz; of 10 % and 15 %, of 40 % and
    # 60 %, of 4 % and 6 %. One counter stayed 0.
    assert rows == {
        "context-switches": ["250", "750"],
        "enp225s0f1np1:tx_prio3_pause_duration": ["1.250 s", "6.250 s"],
        "frequency": ["2.500 GHz", "2.500 GHz"],
        "eth0:outbound_pci_stalled_wr": ["12.5%", "50.0%"],
        "eth1:outbound_pci_stalled_wr": ["5.0%", "5.0%"],
    }
    # The device's own counter is the role of PCIe stalls.
    (row,) = (each for each in found.changes if each.treatment == "on")
    # The device that stalled more, not the sum of both; then the mean over nodes.
    assert (row.tool, row.role, row.pairs) == ("node", "PCIe stalls", 8)
    assert (row.off, row.on, row.ratio.value) == pytest.approx((0.125, 0.5, 4))


def test_runs_that_a_tool_wraps_are_not_mixed_with_the_others(tmp_path):
    times = {"on": 2.0, "off@tool=p": 1.05, "on@tool=p": 2.1}
    run = with_nodes(tmp_path, samples(remedies(times=times), pairs=8))
    found = view(run)
    (row,) = (each for each in found.changes if each.treatment == "on")
    assert (row.off, row.on, row.pairs) == (pytest.approx(0.125), pytest.approx(0.5), 8)
    assert set(found.nodes["melt"].treatments) == {"off", *times}
    assert found.absent == []


def test_a_node_is_no_tool_and_what_nodes_lack_is_named_once(tmp_path):
    absent = {"resctrl": "resctrl mounted"}
    run = with_nodes(tmp_path, samples(LAMMPS, pairs=6), absent)
    found = view(run)
    assert (found.prices, found.notes) == ([], [])
    assert found.absent == ["resctrl: not on 2 nodes; needs resctrl mounted"]
    assert counters_view(load_run(run), "lammps") is None
    (report,) = make_reports([run])
    text = report.page.read_text()
    section = text[text.index('id="r0why"') :].partition("</section>")[0]
    assert "Counters of the nodes, lammps" in section
    assert section.count("resctrl mounted") == 1
