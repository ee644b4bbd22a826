"""The section on counters: Table IV's form, figure 4, and what is said only if figures carry it."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.report.data import RunData, load_run
from analysis.report.make import make_reports
from analysis.statistics.correlation import WorstRank
from analysis.statistics.interval import Estimate
from analysis.subjects.causes import Loss, causes_view, p_text, sentence
from tests.analysis.made_counters import CASES, TOOL, with_tool, write_counts
from tests.analysis.synthetic import remedies, samples, write_run

LAMMPS = CASES[2]


def made(folder: Path, cases=(LAMMPS,), processor: str = "", **truth) -> Path:
    record = json.dumps({"nodes": {"synthetic-0": {"processor": processor}}})
    sha = hashlib.sha256(record.encode()).hexdigest()
    runs = {
        case.name: [replace(each, provenance=sha) for each in with_tool(samples(case, pairs=8))]
        for case in cases
    }
    run = write_run(folder / "run", [each for own in runs.values() for each in own])
    for case in cases:
        write_counts(run, case, runs[case.name], **truth)
    (run / "provenance").mkdir()
    (run / "provenance" / f"{sha}.json").write_text(record)
    return run


def view(run: Path):
    loaded: RunData = load_run(run)
    found = causes_view(loaded, "w")
    assert found
    return found


def test_the_published_table_stands_beside_the_measured_one(tmp_path):
    found = view(made(tmp_path, CASES))
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


def test_roles_that_the_paper_has_not_are_apart(tmp_path):
    others = view(made(tmp_path, CASES)).table.others
    assert {(link.treatment, link.to) for link in others} == {
        (treatment, role) for treatment in ("off", "on") for role in ("cycles", "instructions")
    }


def test_every_case_has_its_own_table_and_panel(tmp_path):
    found = view(made(tmp_path, CASES))
    assert [table.name for table in found.cases] == [case.name for case in CASES]
    assert {row.links[1].points for table in found.cases for row in table.rows} == {8}
    for case in CASES:
        assert f">{case.name}</text>" in found.svg


def test_the_worst_rank_stands_beside_the_median_one(tmp_path):
    found = view(made(tmp_path, worst=3, worst_factor=2.0))
    (row,) = (row for row in found.changes if row.role == "L2 misses")
    assert row.worst.rank == 3
    assert row.worst.growth == pytest.approx(2.2, rel=0.1)
    assert row.worst.median_growth == pytest.approx(1.1, rel=0.1)
    assert row.worst_p < 0.001
    # 4 ranks of 2e7 per second for 177 s.
    assert row.off == pytest.approx(4 * 2e7 * 177, rel=0.05)


def test_what_a_processor_lacks_is_printed(tmp_path):
    notes = view(made(tmp_path, processor="GenuineIntel-6-85-7")).notes
    assert any(
        note.startswith("perf_stat counts no ") and "DDIO misses" in note and "Cascade Lake" in note
        for note in notes
    )
    assert any("IDQ_UOPS_NOT_DELIVERED" in note and "another event" in note for note in notes)


def test_a_processor_without_the_papers_event_says_so(tmp_path):
    notes = view(made(tmp_path, processor="AuthenticAMD-26-2-1")).notes
    assert any("PAPI_STL_ICY" in note and "Zen 5" in note for note in notes)
    assert any("counts no memory stalls" in note for note in notes)


def test_a_role_that_was_not_counted_is_named_with_the_reason(tmp_path):
    run = made(tmp_path, processor="GenuineIntel-6-85-7")
    file = run / "counters" / "lammps.jsonl"
    text = file.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if line["event"] == "cycles":
            line |= {"value": None, "state": "not supported", "running_share": None}
        if line["event"] == "l1d.replacement" and line["rank"] == 1:
            line |= {"state": "multiplexed", "running_share": 0.5}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    notes = view(run).notes
    assert notes[0].endswith(": cycles: not supported")
    assert "L1 misses: the events took turns" in notes[1]


def test_an_unknown_processor_is_named(tmp_path):
    notes = view(made(tmp_path, processor="GenuineIntel-6-1-1")).notes
    (note,) = notes
    assert "GenuineIntel-6-1-1" in note


def priced(folder: Path, price: float) -> Path:
    times = {"on": 2.0, "off@tool=p": price, "on@tool=p": 2.0 * price}
    found = samples(remedies(times=times), pairs=8)
    run = write_run(folder / "run", found)
    (run / "counters").mkdir()
    row = {"tool": "p", "rank": 0, "event": "e", "value": 1.0, "unit": "count"}
    row |= {"key": found[3].key, "state": "counted", "running_share": 1.0}
    (run / "counters" / "melt.jsonl").write_text(json.dumps(row) + "\n")
    return run


@pytest.mark.parametrize(
    ("price", "beyond"), [(1.05, True), (1.01, False), (0.9, True), (0.9803, True), (0.9805, False)]
)
def test_a_tool_that_changes_the_figure_by_more_than_the_margin_is_told(tmp_path, price, beyond):
    found = view(priced(tmp_path, price))
    (row,) = found.prices
    assert (row.tool, row.beyond) == ("p", beyond)
    # The made runs have no noise but the pairs', which cancels.
    assert row.ratio.value == pytest.approx(price)
    (report,) = make_reports([tmp_path / "run"])
    assert ("changed by the tool" in report.page.read_text()) == beyond


def test_a_tool_without_runs_without_it_has_no_price(tmp_path):
    (row,) = view(made(tmp_path)).prices
    assert (row.case, row.tool, row.ratio, row.beyond) == ("lammps", TOOL, None, None)
    (report,) = make_reports([tmp_path / "run"])
    assert "price not measured" in report.page.read_text()


def test_messages_have_a_mean_size(tmp_path):
    runs = with_tool(samples(LAMMPS, pairs=6))
    run = write_run(tmp_path / "run", runs)
    (run / "counters").mkdir()
    of = {"application-time": 2.0, "point-to-point-time": 0.5, "point-to-point-calls": 30.0,
          "point-to-point-messages": 10.0, "point-to-point-sent": 40_000.0}  # fmt: skip
    lines = [
        {"key": each.key, "tool": "mpip", "rank": rank, "event": event, "value": value,
         "unit": "s" if event.endswith("time") else "count", "state": "counted",
         "running_share": None}
        for each in runs for rank in (0, 1) for event, value in of.items()
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "counters" / "lammps.jsonl").write_text(text)
    found = [row for row in view(run).messages if row.treatment == "off"]
    assert [(row.kind, row.share, row.calls, row.size) for row in found] == [
        ("point-to-point", "25.0%", "60", "4.000 kB")
    ]


def loss(low: float, high: float, *, all_ranks=True, worst=None) -> Loss:
    middle = (low + high) / 2
    return Loss("lammps", "on", TOOL, Estimate(middle, low, high, 0.95), all_ranks, worst)


def test_sentences():
    whole = sentence(loss(0.7, 0.9))
    assert whole.startswith("lammps, on: 80% (70% to 90%) of the extra cycles ")
    assert whole.endswith("stalls on memory, on every rank, and no rank stands out.")
    one = WorstRank(rank=3, growth=4.0, median_growth=2.0, times=8, pairs=8, p=0.001)
    assert sentence(loss(0.7, 0.9, all_ranks=False, worst=one)).endswith(
        "rank 3 (4.00 times, the median rank 2.00 times)."
    )
    assert sentence(loss(0.7, 0.9, all_ranks=False)).endswith("the loss is stalls on memory.")
    assert sentence(loss(0.1, 0.3)).endswith("most of the loss is something else.")


@pytest.mark.parametrize(
    ("p", "text"), [(None, "-"), (0.0004, "p < 0.001"), (0.0116, "p = 0.012"), (1.0, "p = 1.000")]
)
def test_p_values(p, text):
    assert p_text(p) == text


def test_the_page_has_the_section_and_says_that_it_is_emulated(tmp_path):
    (report,) = make_reports([made(tmp_path, CASES)])
    text = report.page.read_text()
    assert "Table IV: correlations across workloads" in text
    assert len(re.findall("published, Table IV", text)) == 4
    assert "mathdefault" not in text  # ticks are numbers, not the source of a formula
    section = text[text.index('id="r0why"') :]
    assert "Emulated RDMA, not RDMA hardware." in section[: section.index("</section>")]


def test_a_run_without_tools_has_no_section(tmp_path):
    run = write_run(tmp_path / "run", samples(LAMMPS, pairs=6))
    assert causes_view(load_run(run), "w") is None
    (report,) = make_reports([run])
    assert "Table IV" not in report.page.read_text()


def test_the_figures_lie_beside_the_page(tmp_path):
    (report,) = make_reports([made(tmp_path)])
    (file,) = (path for path in report.data if path.name == "why.json")
    document = json.loads(file.read_text())
    assert document["schema"] == 1
    (found,) = document["runs"].values()
    assert set(found) == {"changes", "links", "losses", "without"}
    (stalls,) = (row for row in found["changes"] if row["role"] == "memory stalls")
    assert stalls["ratio"]["low"] > 1
