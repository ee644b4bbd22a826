"""Cells and answers of RDMA and NUMA, on rates chosen so that every figure follows by hand."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.report.data import load_run
from analysis.report.page import render
from analysis.report.plots import View
from analysis.subjects.numa import Cell, Key, cells, key_of, numa_view, questions
from records.sample import Level
from tests.analysis.drawn import bars
from tests.analysis.synthetic import Case, crossed, header, samples, write_run

GB = 1e9
#: What communications do in each cell, GB/s, one a run; six runs of the same rate where it is one.
TWO_NODES = {
    Key("write", "nic", "idle", ""): 8,
    Key("write", "nic", "write", "nic"): 6,
    Key("write", "nic", "write", "free"): 1.5,
    Key("write", "other", "idle", ""): 4,
    Key("write", "other", "write", "other"): 1,
    Key("write", "other", "write", "free"): [1, 2, 3, 4, 5, 6],
    Key("read", "other", "idle", ""): 5,
    Key("read", "other", "write", "other"): 3.7,
    Key("read", "other", "write", "free"): [1, 2, 3, 4, 5, 6],
}


def run_of(folder: Path, grid: dict[Key, object], nodes: int = 2, **writer: object) -> Path:
    """A run whose cells are the treatments of one case; nothing of it was measured.

    Workers do 10 GB/s alone, and 5 GB/s beside communications. Without workers their place says
    nothing.
    """
    placed = {"buffer_node": 0, "target_on_node_share": 1.0, "own_binding": "none", **writer}
    effects: dict[str, float] = {}
    rates: dict[str, object] = {}
    for key, rate in grid.items():
        workers = key.workers or "nic"
        at = f"buffer={key.buffer},load={key.load},workers={workers}"
        off, spin, on = f"off@{at}", f"spin@{at}", f"on@{at},direction={key.direction}"
        effects |= {off: 1.0, spin: 1.25 if key.buffer == "other" else 1.6, on: 2.0}
        rates[on] = rate
    case = Case("numa", "B/s", "higher", 10 * GB, effects, noise=0, pair_noise=0)
    case = crossed(case, dict.fromkeys(("buffer", "load", "workers"), "none"))
    found = []
    for sample in samples(case, pairs=6):
        if sample.arm in rates:
            rate = rates[sample.arm]
            each = rate[sample.pair] if isinstance(rate, list) else rate
            (record,) = sample.writers
            written = {"rate_b_s": each * GB, "direction": sample.factors["direction"], **placed}
            sample = replace(sample, writers=[replace(record, **written)])
        found.append(sample)
    run = write_run(folder / "run", found, header(campaign="numa"))
    (run / "provenance").mkdir(exist_ok=True)
    facts = {"numa_nodes": nodes, "nic_node": 0, "places": {"nic": 0, "other": 1}}
    (run / "provenance" / f"{'0' * 64}.json").write_text(json.dumps({"numa": facts}))
    return run


def cells_of(run: Path) -> list[Cell]:
    data = load_run(run, force=True)
    return cells(data.samples, data.results, data.provenance)


def view_of(run: Path) -> View:
    return numa_view(load_run(run, force=True), "u")


def answers(found: list[View]) -> list[list[str]]:
    return [[answer.finding for answer in question.answers] for question in found]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("numa"), TWO_NODES)


def test_both_sides_of_every_cell(run: Path) -> None:
    found = {cell.key: cell for cell in cells_of(run)}
    assert list(found) == list(TWO_NODES)  # idle first, then by where workers run
    loaded = found[Key("write", "nic", "write", "nic")]
    assert loaded.communications.value == 6 * GB
    assert (loaded.of_idle.low, loaded.of_idle.value, loaded.of_idle.high) == (0.75, 0.75, 0.75)
    assert (loaded.workers_alone_b_s, loaded.workers_b_s) == pytest.approx((10 * GB, 5 * GB))
    assert loaded.kept.value == pytest.approx(0.5)
    varied = found[Key("write", "other", "write", "free")]
    # Median of 1 to 6 GB/s; six runs give the extremes as interval.
    of = varied.communications
    assert (of.low, varied.median_b_s, of.high) == (1 * GB, 3.5 * GB, 6 * GB)
    # The control of a cell is that with its baseline.
    assert loaded.kept_control.value == pytest.approx(1 / 1.6)
    remote = found[Key("read", "other", "write", "other")]
    assert remote.kept_control.value == pytest.approx(1 / 1.25)
    assert found[Key("read", "other", "idle", "")].kept_control is None
    view = view_of(run)
    assert view.notes[0] == "nic is NUMA node 0, other is 1, of 2"
    assert view.interleaved
    # Of each cell with workers: its communications, its workers, and these beside the control.
    assert bars(view.svg) == {"on": 6, "off": 6, "spin": 6}


def test_a_cell_is_of_the_first_levels_of_other_factors(tmp_path: Path) -> None:
    """Half the rate is another question: it is no run of the cell."""
    run = run_of(tmp_path, {Key("write", "nic", "idle", ""): 8})
    path = run / "samples" / "numa.jsonl"
    slow = []
    for record in map(json.loads, path.read_text().splitlines()):
        if record["role"] == "effect":
            record |= {name: record[name] + ",rate=50%" for name in ("arm", "key")}
            record["factors"]["rate"] = "50%"
            record["writers"][0]["rate_b_s"] = 4 * GB
            slow.append(json.dumps(record))
    assert len(slow) == 6
    path.write_text("\n".join([*slow, path.read_text()]))
    (cell,) = cells_of(run)
    assert cell.rates_b_s == [8 * GB] * 6


def test_a_direction_that_is_no_factor_is_what_the_writers_did(tmp_path: Path) -> None:
    run = run_of(tmp_path, {Key("read", "nic", "write", "nic"): 8})
    path = run / "samples" / "numa.jsonl"
    text = path.read_text()
    assert text.count(', "direction": "read"}') == 6
    path.write_text(text.replace(', "direction": "read"}', "}"))
    (cell,) = cells_of(run)
    assert cell.key == Key("read", "nic", "write", "nic")
    assert cell.rates_b_s == [8 * GB] * 6


def test_cells_need_all_their_levels() -> None:
    levels: dict[str, Level] = {"direction": "read", "buffer": "other", "load": "nt_write"}
    assert key_of({**levels, "workers": "free"}) == Key("read", "other", "nt_write", "free")
    assert key_of(levels) is None
    assert key_of({**levels, "load": "idle", "workers": "nic"}) == Key("read", "other", "idle", "")
    assert key_of({"rate": "25%"}) is None


def test_rates_are_the_targets_where_its_device_counted_every_run(tmp_path: Path) -> None:
    key = Key("read", "nic", "idle", "")
    claimed = cells_of(run_of(tmp_path / "a", {key: 8}))[0]
    assert (claimed.reported_by, claimed.median_b_s) == ("origin", 8 * GB)
    # Without workers there is no rate of workers.
    assert (claimed.workers_alone_b_s, claimed.kept, claimed.of_idle) == (None, None, None)
    # 14 GB within 2 s.
    counted = cells_of(run_of(tmp_path / "b", {key: 8}, counted_b=14 * GB, counted_s=2.0))[0]
    assert (counted.reported_by, counted.median_b_s) == ("target", 7 * GB)


def test_published_findings_as_questions(run: Path) -> None:
    found = questions(cells_of(run), numa_nodes=2)
    idle, remote, placed, locked = found
    # Into another node: writes 4, reads 5. Into the interface's: reads are not in this run.
    first, second = idle.answers
    assert (first.finding, first.reason) == ("no", "the opposite holds")
    assert first.ratio.value == pytest.approx(0.8)
    assert (second.finding, second.reason) == ("not measured", "not part of this run")
    # Reads against writes: no cell; 3.7 / 1; the same six rates on both sides.
    assert answers([remote]) == [["not measured", "yes", "inconclusive"]]
    assert remote.answers[1].ratio.value == pytest.approx(3.7)
    assert remote.answers[2].reason == "the interval contains 1"
    # Reading workers are not in this run; writing ones: 6 / 1.5.
    assert [answer.finding for answer in placed.answers] == ["not measured", "yes"]
    assert placed.answers[1].ratio.value == pytest.approx(4.0)
    assert (placed.answers[1].first_b_s, placed.answers[1].second_b_s) == (6 * GB, 1.5 * GB)
    assert answers([locked]) == [["not measured"]]


def test_one_numa_node_answers_nothing_about_another(tmp_path: Path) -> None:
    grid = {key: rates for key, rates in TWO_NODES.items() if "other" not in key}
    run = run_of(tmp_path, grid, nodes=1, target_on_node_share=None)
    found = questions(cells_of(run), numa_nodes=1)
    assert answers(found) == [
        ["not measured", "not measured"],
        ["not measured"] * 3,
        ["not measured", "not measured"],
        ["not measured"],
    ]
    assert {each.reason for each in found[1].answers} == {"this machine has only one NUMA node"}
    assert found[0].answers[1].reason == "not part of this run"
    pinned = found[2].answers[1]
    assert pinned.reason == "this machine has only one NUMA node: the cells differ in pinning only"
    assert pinned.ratio.value == pytest.approx(4.0)  # shown, though it is no answer
    notes = " ".join(view_of(run).notes)
    for words in ("only one NUMA node", "not verified", "NUMA node of the origin's cores"):
        assert words in notes
    assert "ways of copying" not in notes  # this run has no reads
    reads = run_of(tmp_path / "reads", {Key("read", "nic", "read", "nic"): 8})
    for each, way in ((run, "were written into its node"), (reads, "8.00 GB/s were read from its")):
        page = render([load_run(each, force=True)])
        assert way in page
        captions = re.findall(r"<figcaption>.*?</figcaption>", page, re.DOTALL)
        assert all("Emulated RDMA, not RDMA hardware." in caption for caption in captions)


@pytest.mark.parametrize(
    ("pinned_b", "answer", "reason"),
    [
        ((4 << 20, 65536), "yes", "in all cells, at least 64 KiB"),
        ((4 << 20, None), "yes", "in all cells, at least 4 MiB"),
        ((65535, 65536), "inconclusive", "pinned in some cells only"),
        ((0, 0), "no", ""),
        ((None, None), "not measured", "not reported by the kernel"),
    ],
)
def test_pages_are_locked_where_a_message_of_64_kib_is_pinned(
    tmp_path: Path, pinned_b: tuple[int | None, ...], answer: str, reason: str
) -> None:
    (cell,) = cells_of(run_of(tmp_path, {Key("write", "nic", "idle", ""): 8}, target_pinned_b=7))
    assert (cell.pinned_b, cell.message_b) == (7, 65536)
    (found,) = questions([replace(cell, pinned_b=each) for each in pinned_b], 2)[3].answers
    assert found.finding == answer
    assert found.reason.endswith(reason)


def test_fewer_than_six_runs_answer_nothing(tmp_path: Path) -> None:
    grid = {Key(direction, "nic", "idle", ""): 8 for direction in ("write", "read")}
    run = run_of(tmp_path, grid)
    path = run / "samples" / "numa.jsonl"
    lines = path.read_text().splitlines()
    last = ('"pair": 5', "direction=read/")
    cut = [line for line in lines if not all(words in line for words in last)]
    assert len(cut) == len(lines) - 1
    path.write_text("\n".join(cut) + "\n")
    answer = questions(cells_of(run), 2)[0].answers[1]
    assert (answer.finding, answer.reason) == ("inconclusive", "fewer than 6 runs per side")
    assert answer.ratio is None


def test_soft_roce_on_one_host_is_not_a_copy_between_processes(tmp_path: Path) -> None:
    grid: dict[Key, object] = {Key(way, "nic", "idle", ""): 8 for way in ("write", "read")}
    view = view_of(run_of(tmp_path, grid, transport="soft-RoCE"))
    assert not any("no network interface" in note or "copying" in note for note in view.notes)
    (emulated,) = view.emulated
    assert "soft-RoCE" in emulated


def test_a_cell_without_a_run_that_counts_is_no_answer(tmp_path: Path) -> None:
    grid: dict[Key, object] = {Key(way, "nic", "idle", ""): 8 for way in ("write", "read")}
    run = run_of(tmp_path, grid)
    path = run / "samples" / "numa.jsonl"
    lines = path.read_text().splitlines()
    reads = [line.replace('"kept"', '"rejected"') for line in lines if "direction=read/" in line]
    path.write_text("\n".join([*(each for each in lines if "direction=read/" not in each), *reads]))
    found = cells_of(run)
    assert [len(cell.rates_b_s) for cell in found] == [6, 0]
    assert questions(found, 2)[0].answers[1].reason == "no run counts"
    assert "not verified" not in " ".join(view_of(run).notes)


def test_other_runs_have_no_such_section(tmp_path: Path) -> None:
    made = samples(Case("stream", "B/s", "higher", 1e9, {"on": 1.2}), pairs=6)
    assert numa_view(load_run(write_run(tmp_path / "run", made)), "u") is None
