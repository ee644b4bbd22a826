"""Tests cells and findings on RDMA and NUMA nodes.

Rates are chosen so that every figure can be worked out by hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from analysis.questions.question import answer, sentences_of
from analysis.report.data import load_run
from analysis.subjects.numa_cells import CELLS, DEFAULTS
from analysis.subjects.numa_findings import FINDINGS
from records.arms import treatment_name
from records.campaign import Campaign, Entry
from records.checkout import ROOT
from records.sample import Sample
from records.yaml_file import parse
from reframe_tests.numa import numa
from reframe_tests.planning import DEFAULT_WRITES
from tests.analysis.subjects.made_numa import GB, TWO_NODES, Key, run_of, runs_of, write
from tests.analysis.synthetic import Case, answered, crossed, reject, samples

Rows = list[dict[str, Any]]


def cells_of(run: Path) -> dict[tuple[Key, str], dict[str, Any]]:
    """Return cell and side (communications or workers) -> row."""
    rows = answered(CELLS, run).to_dicts()
    return {(Key(*(row[name] for name in Key._fields)), row["side"]): row for row in rows}


def findings_of(run: Path) -> list[Rows]:
    """Return the rows of each finding in numa.json."""
    rows = answered(FINDINGS, run).to_dicts()
    names = list(dict.fromkeys(row["finding"] for row in rows))
    return [[row for row in rows if row["finding"] == name] for name in names]


def words(rows: Iterable[dict[str, Any]]) -> list[str]:
    return [row["word"] for row in rows]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("numa"), TWO_NODES)


COMMUNICATIONS, WORKERS, CONTROL = SIDES = ("communications", "workers", "workers, control")


def test_both_sides_of_every_cell(run: Path) -> None:
    cells = cells_of(run)
    # Cells without workers come first, then the others by the place of the workers.
    assert list(cells) == [
        (key, side) for key in TWO_NODES for side in (SIDES[:1] if key.load == "idle" else SIDES)
    ]
    key = Key("write", "nic", "write", "nic")
    loaded = cells[key, COMMUNICATIONS]
    assert loaded["rate_b_s"] == 6 * GB
    assert [loaded[f"share{end}"] for end in ("_low", "", "_high")] == [0.75, 0.75, 0.75]
    assert (loaded["alone_b_s"], loaded["n"]) == (8 * GB, 6)
    workers = cells[key, WORKERS]
    assert (workers["alone_b_s"], workers["rate_b_s"]) == pytest.approx((10 * GB, 5 * GB))
    assert workers["share"] == pytest.approx(0.5)
    varied = cells[Key("write", "other", "write", "free"), COMMUNICATIONS]
    # The median of 1 to 6 GB/s is 3.5. With six runs, the interval has the extremes as ends.
    ends = [varied[f"rate_b_s{end}"] for end in ("_low", "", "_high")]
    assert ends == [1 * GB, 3.5 * GB, 6 * GB]
    # The control of a cell is the one with the cell's baseline.
    assert cells[key, CONTROL]["share"] == pytest.approx(1 / 1.6)
    remote = cells[Key("read", "other", "write", "other"), CONTROL]
    assert remote["share"] == pytest.approx(1 / 1.25)


IDLE = Key("write", "nic", "idle", "")
LOADED = Key("read", "nic", "write", "nic")


def at_half(run: Sample) -> Sample:
    """Return the run of the same treatment at half the rate."""
    name, key = f"{run.arm},rate=50%", run.key.replace(run.arm, f"{run.arm},rate=50%")
    writers = [replace(writer, rate_b_s=4 * GB) for writer in run.writers]
    return replace(run, arm=name, key=key, factors={**run.factors, "rate": "50%"}, writers=writers)


def test_a_cell_is_of_the_first_levels_of_other_factors(tmp_path: Path) -> None:
    """A run at half the rate is no run of the cell."""
    runs = runs_of({IDLE: 8})
    half = [at_half(run) for run in runs if run.role == "effect"]
    (cell,) = cells_of(write(tmp_path / "both", [*half, *runs])).values()
    assert (cell["rate_b_s"], cell["n"]) == (8 * GB, 6)
    # It is not used either if no other run of the cell counts.
    lost = [reject(s, "rejected", "slow") if s.role == "effect" else s for s in runs]
    (cell,) = cells_of(write(tmp_path / "lost", [*half, *lost])).values()
    assert (cell["rate_b_s"], cell["n"]) == (None, 0)


def with_factor(run: Sample, name: str, level: str | None) -> Sample:
    """Return the run with another level of a factor; without the factor if `level` is None."""
    factors = {factor: level for factor, level in run.factors.items() if factor != name}
    return replace(run, factors=factors | ({name: level} if level else {}))


def test_a_direction_that_is_no_factor_is_taken_from_the_writers(tmp_path: Path) -> None:
    runs = [with_factor(run, "direction", None) for run in runs_of({LOADED: 8})]
    cell = cells_of(write(tmp_path, runs))[LOADED, COMMUNICATIONS]
    assert (cell["rate_b_s"], cell["n"]) == (8 * GB, 6)


def test_a_buffer_at_an_unknown_place_is_in_no_cell(tmp_path: Path) -> None:
    runs = [with_factor(run, "buffer", "elsewhere") for run in runs_of({LOADED: 8})]
    assert cells_of(write(tmp_path, runs)) == {}


@pytest.mark.parametrize("factor", ["buffer", "load", "workers"])
def test_a_level_that_does_not_vary_is_the_checks_default(tmp_path: Path, factor: str) -> None:
    """LOADED has the defaults of all three."""
    runs = [with_factor(run, factor, None) for run in runs_of({LOADED: 8})]
    cell = cells_of(write(tmp_path, runs))[LOADED, COMMUNICATIONS]
    assert (cell["rate_b_s"], cell["n"]) == (8 * GB, 6)


def test_a_level_that_does_not_vary_may_be_set_by_the_campaign(tmp_path: Path) -> None:
    runs = [with_factor(run, "load", None) for run in runs_of({LOADED: 8})]
    loaded = load_run(write(tmp_path, runs))
    workloads = [{"check": "numa", "set": {"load": "read"}}]
    head = replace(loaded.header, resolved={"campaign": {"workloads": workloads}})
    table = answer(CELLS, replace(loaded, header=head))
    assert set(table["load"]) == {"read"}


def test_defaults_are_those_of_the_check_and_of_the_writers() -> None:
    variables = {name: getattr(numa, name) for name in DEFAULTS if name != "clients"}
    assert variables | {"clients": DEFAULT_WRITES["clients"]} == DEFAULTS


def runs_of_entry(entry: Entry, exclude: Sequence[Mapping[str, Any]]) -> list[Sample]:
    """Return six pairs of each treatment of an entry of the campaign, in which nothing is slower.

    A writer of the case `several-clients` has a rate of its number of clients in GB/s.
    """
    first = {name: levels[0] for name, levels in entry.factors.items()}
    writers = {name: level for name, level in first.items() if name in ("direction", "clients")}
    application = {name: level for name, level in first.items() if name not in writers}
    effects = {}
    for levels in product(*entry.factors.values()):
        cell = dict(zip(first, levels, strict=True))
        if any(cell.items() >= left_out.items() for left_out in exclude):
            continue
        varied = {name: level for name, level in cell.items() if level != first[name]}
        at_baseline = {name: level for name, level in varied.items() if name in application}
        effects |= {treatment_name("off", at_baseline): 1.0, treatment_name("on", varied): 1.0}
    case = Case(name=entry.name, unit="B/s", better="higher", base=10 * GB, effects=effects)
    return [
        replace(
            run,
            workload="numa",
            writers=[
                replace(writer, rate_b_s=GB * int(run.factors.get("clients", 8)))
                for writer in run.writers
            ],
        )
        for run in samples(crossed(case, application, writers), pairs=6)
    ]


@pytest.mark.slow
def test_every_case_and_level_of_the_shipped_campaign_has_a_row(tmp_path: Path) -> None:
    path = ROOT / "campaigns" / "numa.yaml"
    campaign = Campaign.model_validate(parse(path.read_text(), path).data)
    runs = [run for entry in campaign.workloads for run in runs_of_entry(entry, campaign.exclude)]
    table = answered(CELLS, write(tmp_path, runs)).filter(side=COMMUNICATIONS)
    # Four pairs of direction and buffer, without workers or with three loads at three places. As
    # many workers as a node has cores are those of the first case, so there are three other numbers
    # of workers. Three numbers of clients are tried with and without workers.
    counts = table.group_by("local_workers", "clients").len().rows()
    numbers = [1, 2, 4]
    assert set(counts) == {
        ("", "", 40),
        *((f"local_workers={number}", "", 4) for number in numbers),
        *(("", f"clients={number}", 8) for number in numbers),
    }
    rates = table.filter(direction="read", buffer="other", load="write")
    for number in numbers:
        row = rates.filter(clients=f"clients={number}").row(0, named=True)
        assert (row["rate_b_s"], row["share"]) == (number * GB, 1)
    shared_cell = table.filter(
        direction="write",
        buffer="nic",
        load="write",
        workers="nic",
        local_workers="",
        clients="",
    )
    assert shared_cell["cases"].to_list() == [2]


def test_rates_are_the_targets_if_its_device_counted_every_run(tmp_path: Path) -> None:
    key = Key("read", "nic", "idle", "")
    # Without workers, there is no row of workers, and no share.
    (claimed,) = cells_of(run_of(tmp_path / "a", {key: 8})).values()
    assert (claimed["counted_by"], claimed["rate_b_s"]) == ("origin", 8 * GB)
    assert (claimed["share"], claimed["alone_b_s"]) == (None, None)
    # The device counted 14 GB in 2 s.
    counted = run_of(tmp_path / "b", {key: 8}, counted_b=14 * GB, counted_s=2.0)
    (cell,) = cells_of(counted).values()
    assert (cell["counted_by"], cell["rate_b_s"]) == ("target", 7 * GB)


def test_published_findings_as_questions(run: Path) -> None:
    idle, remote, placed, locked = findings_of(run)
    # On the other node, writes have 4 GB/s and reads 5. On the interface's node, reads were not
    # measured.
    assert [(row["word"], row["why"]) for row in idle] == [
        ("no", ""),
        ("not measured", "not part of this run"),
    ]
    assert idle[0]["ratio"] == pytest.approx(0.8)
    # Reads are compared with writes: one cell is missing, one ratio is 3.7 / 1, and one has the
    # same six rates on both sides.
    assert words(remote) == ["not measured", "yes", "inconclusive"]
    assert remote[1]["ratio"] == pytest.approx(3.7)
    assert remote[2]["why"] == "the interval contains 1"
    # Workers that read were not measured. With workers that write, the ratio is 6 / 1.5.
    assert words(placed) == ["not measured", "yes"]
    assert placed[1]["ratio"] == pytest.approx(4.0)
    assert (placed[1]["first_b_s"], placed[1]["second_b_s"]) == (6 * GB, 1.5 * GB)
    assert words(locked) == ["not measured"]


def test_one_numa_node_answers_nothing_about_another(tmp_path: Path) -> None:
    grid = {key: rates for key, rates in TWO_NODES.items() if "other" not in key}
    run = run_of(tmp_path, grid, nodes=1, target_on_node_share=None)
    findings = findings_of(run)
    assert [set(words(rows)) for rows in findings] == [{"not measured"}] * 4
    assert {row["why"] for row in findings[1]} == {"this machine has only one NUMA node"}
    assert findings[0][1]["why"] == "not part of this run"
    pinned = findings[2][1]
    assert "one NUMA node" in pinned["why"]
    assert pinned["ratio"] == pytest.approx(4.0)  # shown, though it is no answer
    assert {row["on_node_share"] for row in cells_of(run).values()} == {None}


@pytest.mark.parametrize(
    ("counted", "word", "why"),
    [
        (6, "inconclusive", "the interval contains 1"),
        (5, "inconclusive", "fewer than 6 runs per side"),
        (0, "not measured", "no run counts"),
    ],
)
def test_equal_rates_too_few_runs_and_none_answer_nothing(
    tmp_path: Path, counted: int, word: str, why: str
) -> None:
    """`counted` of six reads count."""
    runs = [
        reject(run, "rejected", "slow")
        if "direction=read" in run.arm and run.pair >= counted
        else run
        for run in runs_of({IDLE._replace(direction=way): 8 for way in ("write", "read")})
    ]
    row = findings_of(write(tmp_path, runs))[0][1]
    assert (row["word"], row["why"], row["n"]) == (word, why, counted)
    ends = [row[f"ratio{end}"] for end in ("_low", "", "_high")]
    assert ends == ([1, 1, 1] if counted == 6 else [None] * 3)


@pytest.mark.parametrize(
    ("pinned_b", "word", "why"),
    [
        ((4 << 20, 65536), "yes", ""),
        ((4 << 20, None), "yes", ""),
        ((65535, 65536), "inconclusive", "pinned in some cells only"),
        ((0, 0), "no", ""),
        ((None, None), "not measured", "not reported by the kernel"),
    ],
)
def test_pages_are_locked_if_a_message_of_64_kib_is_pinned(
    tmp_path: Path, pinned_b: tuple[int | None, ...], word: str, why: str
) -> None:
    keys = [Key(way, "nic", "idle", "") for way in ("write", "read")]
    cell_fields = {
        key: {"target_pinned_b": size_b} for key, size_b in zip(keys, pinned_b, strict=True)
    }
    run = run_of(tmp_path, dict.fromkeys(keys, 8), cell_fields=cell_fields)
    assert [row["pinned_b"] for row in cells_of(run).values()] == list(pinned_b)
    (row,) = findings_of(run)[3]
    assert (row["word"], row["why"]) == (word, why)


@pytest.mark.parametrize("balancing", ["on", None])
def test_the_settings_of_numa_balancing_are_named(run: Path, balancing: str | None) -> None:
    loaded = load_run(run)
    other = {"nodes": {"n1": {"numa_balancing": balancing}}}
    records = {**loaded.provenance, "another block": other}
    table = answer(FINDINGS, replace(loaded, provenance=records))
    (sentence,) = sentences_of(FINDINGS, table)
    assert f"(kernel.numa_balancing) of the nodes: {balancing or 'not known'}." in sentence
