"""Tests edits of a sound run.

An edit that makes results wrong is a fault, and the run is refused. An edit that is only odd is
noted.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from analysis.report.data import load_run
from analysis.report.page import make_reports
from records.errors import InputError
from tests.analysis.integrity.sound import Json, checked, edit_header, edit_samples, sound_run
from tests.analysis.synthetic import PROVENANCE, Case, samples, write_run
from tests.captures import RUN_QUICK

Edit = Callable[[list[Json]], Any]


def record_of(records: list[Json], arm: str, pair: int = 0) -> Json:
    return next(
        r for r in records if (r["arm"], r["pair"], r["outcome"]) == (arm, pair, "accepted")
    )


def setting(arm: str, /, **fields: Any) -> Edit:
    """Return an edit that sets fields of an arm's run in the first pair."""
    return lambda records: record_of(records, arm).update(fields)


def writer(number: int, /, **fields: Any) -> Edit:
    """Return an edit that sets fields of a writer of `on` in the first pair."""
    return lambda records: record_of(records, "on")["writers"][number].update(fields)


def written(arm: str) -> Edit:
    """Return an edit that gives a writer of `on` to another arm."""
    return lambda records: record_of(records, arm).update(
        writers=record_of(records, "on")["writers"][:1]
    )


def overlap(records: list[Json], by_s: float = 1.5) -> None:
    """Make a run begin `by_s` before the previous run ends. The clock may be adjusted by 1 s."""
    before = records[2]
    records[3]["start_s"] = before["start_s"] + before["elapsed_s"] - by_s


def second_first(records: list[Json]) -> None:
    """Add an accepted run again, as an earlier attempt of the same run."""
    index = records.index(record_of(records, "on"))
    records[index].update(attempt=1, key=records[index]["key"][:-1] + "1")
    again = {**deepcopy(records[index]), "attempt": 0, "fom": records[index]["fom"] * 2}
    records.insert(index, {**again, "key": again["key"][:-1] + "0"})


def without(**fields: Any) -> Edit:
    return lambda records: [r for r in records if not fields.items() <= r.items()]


_NOBODY = {"rate_b_s": 0.0, "rate_min_b_s": 0.0, "bytes_b": 0.0, "rate_alone_b_s": 0.0}
#: Edits of the samples of STREAM that are faults, each with words of the fault.
FAULTS: list[tuple[Edit, str]] = [
    (setting("on", key="stream/0/9/on/0"), "key: "),
    (setting("on", pair=7), "allowed: CASE/BLOCK/PAIR"),
    (second_first, "at most one accepted attempt per run"),
    (setting("on", writers=[]), "writers: 0 found; allowed: all that the arm needs"),
    (writer(1, **_NOBODY), "writer_share: 0.0 found"),
    (writer(1, rate_min_b_s=8.1e8), "at least 0.5: 'min_share'"),
    (lambda records: record_of(records, "on")["writers"].pop(), "writers: 1 found; allowed: as in"),
    (writer(0, transport="InfiniBand"), "transport: "),
    (writer(0, message_b=1 << 20), "message_b: "),
    (setting("aa", fom_unit="s"), "fom_unit: "),
    (setting("aa", fom_better="lower"), "fom_better: "),
    (written("off"), "writers: 1 found; allowed: 0"),
    (written("spin"), "allowed: 0 in runs of a control"),
    (setting("spin", writers=[]), "writers: 0 found; allowed: all that"),
    (setting("on", nodes=["other"]), "the same in all runs"),
    (setting("aa", role="baseline", baseline=None), "role: "),
    (setting("aa", baseline=None), "baseline: None found"),
    (setting("on", factors={"rate": "25%"}), "factors: "),
    (setting("off", workload="other"), "workload: "),
    # Figures that no run measures, although they are valid numbers, and negative times and rates.
    (setting("on", fom=5e-324), "fom: 5e-324 found"),
    (setting("aa", fom=1e300), "fom: 1e+300 found"),
    (setting("spin", elapsed_s=-1.0), "elapsed_s: -1.0 found"),
    (writer(0, rate_before_b_s=-1.0), "writer_figures: False found"),
]
#: Edits of the samples of STREAM that are odd, each with words of the note.
NOTES: list[tuple[Edit, str]] = [
    (setting("on", arm="full", key="stream/0/0/full/0"), "case 'stream': 'full' was not requested"),
    (overlap, "allowed: after the end of the previous sample of its block"),
    (setting("on", provenance="1" * 64), "a file in provenance/"),
    (without(pair=1, arm="off"), "pair: 1 found; allowed: one with a run of every treatment"),
    (without(arm="spin"), "has no accepted run of spin"),
    (setting("off", start_s=1.0), "after the run's start"),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound_run(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    """Return a copy of the sound run that a test may edit."""
    return Path(shutil.copytree(sound, tmp_path / sound.name))


def refused(run: Path) -> str:
    with pytest.raises(InputError) as error:
        load_run(run)
    return str(error.value)


def test_the_run_without_edits_is_sound(sound: Path) -> None:
    data = load_run(sound)
    assert (data.integrity.faults, data.integrity.notes) == ([], [])
    assert data.samples.height == 2 * (1 + 6 * 4 + 1)


@pytest.mark.parametrize(("edit", "words"), FAULTS, ids=[words for _, words in FAULTS])
def test_an_edit_that_makes_a_result_wrong_is_a_fault_with_its_line(
    run: Path, edit: Edit, words: str
) -> None:
    edit_samples(run, "stream", edit)
    integrity = checked(run)
    assert any(words in line for line in integrity.faults)
    assert (integrity.fault_count, integrity.broken_file_faults) == (len(integrity.faults), [])
    assert integrity.faults[0].startswith(f"{run}/samples/stream.jsonl:")


#: Edits of the first accepted run of 'daly', each with words of the fault.
OFF_TIMETABLE: list[tuple[Edit, str]] = [
    (setting("daly", writers=[]), "all that the arm needs"),
    *(
        (
            lambda records, name=name: record_of(records, "daly")["timetable"].update({name: 0.11}),
            f"{name}: 0.11 found; allowed: at most",
        )
        for name in ("missing_share", "excess_share")
    ),
]


@pytest.mark.parametrize(("edit", "words"), OFF_TIMETABLE)
def test_short_writes_must_meet_their_timetable(tmp_path: Path, edit: Edit, words: str) -> None:
    """A tenth of the writing may be missing, or in excess."""
    run = write_run(
        tmp_path / "run",
        samples(Case(name="melt", unit="s", better="lower", base=1.0, effects={"daly": 1.1})),
    )
    assert checked(run).faults == []
    edit_samples(run, "melt", edit)
    assert any(words in line for line in checked(run).faults)


@pytest.mark.parametrize(("edit", "words"), NOTES, ids=[words for _, words in NOTES])
def test_an_odd_edit_is_noted(run: Path, edit: Edit, words: str) -> None:
    edit_samples(run, "stream", edit)
    integrity = checked(run)
    assert integrity.faults == []
    assert any(words in line for line in integrity.notes)


@pytest.mark.parametrize("by_s", [0.9, -0.5])
def test_a_clock_may_be_adjusted_by_a_second(run: Path, by_s: float) -> None:
    edit_samples(run, "stream", lambda records: overlap(records, by_s))
    assert checked(run).notes == []


@pytest.mark.slow
def test_a_page_with_faults_is_marked_and_has_the_notes(run: Path, tmp_path: Path) -> None:
    for edit, _ in FAULTS[-4:]:
        edit_samples(run, "stream", edit)
    assert refused(run).startswith(f"{run}: 4 integrity faults: not to be trusted\n")
    run = run.rename(tmp_path / "copy")
    (report,) = make_reports([run], force=True)
    page = unescape(report.page.read_text())
    assert "not to be trusted" in page
    assert "<path" in page
    assert "the folder copy holds the run sound-run" in page
    (document,) = json.loads(report.data_paths[0].read_text())["runs"]
    for _, words in FAULTS[-4:]:
        assert any(words in line for line in document["integrity_faults"])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pairs_cap": 1}, "pairs_cap: 1 found; allowed: from pairs_floor, 6"),
        ({"pairs_cap": 10**400}, "pairs_cap: "),
        ({"asked": None}, "asked: "),
    ],
)
def test_an_edit_of_the_header_is_one_line(run: Path, fields: Json, words: str) -> None:
    edit_header(run, lambda head: head.update(fields))
    assert words in refused(run)


def test_a_clock_that_was_set_back_between_two_sessions_is_noted(run: Path) -> None:
    edit_header(run, lambda head: head.update(finished_s=head["started_s"] - 3600.0))
    integrity = checked(run)
    assert integrity.faults == []
    assert any("ends 3600 s before it began" in line for line in integrity.notes)


def test_a_case_that_was_deleted_is_noted(run: Path) -> None:
    (run / "samples" / "lammps.jsonl").unlink()
    edit_header(run, lambda head: head)
    lacks = f"{run}: case 'lammps' has no accepted run of off, on, spin, aa"
    assert checked(run).notes == [lacks]
    edit_header(run, lambda head: head.update(finished_s=None))
    assert checked(run).notes == []  # in a run that is not finished, it may not have begun


def test_provenance_is_named_by_its_content(run: Path) -> None:
    path = run / "provenance" / f"{PROVENANCE}.json"
    path.write_text('{"synthetic": false}')
    integrity = checked(run)
    assert f"{path}: SHA-256 of its content:" in integrity.faults[0]
    assert integrity.broken_file_faults == integrity.faults
    path.unlink()
    assert "provenance: " in checked(run).notes[0]
    for numa in (3, {"load": "write"}, {"numa_nodes": "two"}):
        text = json.dumps({"numa": numa})
        name = hashlib.sha256(text.encode()).hexdigest()
        path = run / "provenance" / f"{name}.json"
        path.write_text(text)
        assert f"{path}: numa" in refused(run)
        path.unlink()


@pytest.mark.parametrize(("early_s", "noted"), [(61.0, True), (59.0, False)])
def test_no_run_ends_after_its_campaign(run: Path, early_s: float, noted: bool) -> None:
    """Clocks may differ by a minute."""
    files = run.glob("samples/*.jsonl")
    runs = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    ended_s = max(run["start_s"] + run["elapsed_s"] for run in runs)
    edit_header(run, lambda head: head.update(finished_s=ended_s - early_s))
    assert any("before the run's end" in note for note in checked(run).notes) == noted


@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_run_may_be_stopped_anywhere_in_its_first_pairs(run: Path, count: int) -> None:
    """A case has a warm-up, and pairs of four treatments."""
    edit_header(run, lambda head: head.update(finished_s=None))
    edit_samples(run, "stream", lambda records: records[:count])
    assert checked(run).faults == []


def test_only_the_first_twenty_faults_are_listed(run: Path) -> None:
    edit_samples(run, "stream", lambda records: [{**r, "elapsed_s": -1.0} for r in records])
    first, *lines, more = refused(run).splitlines()
    assert first == f"{run}: 26 integrity faults: not to be trusted"
    assert (len(lines), more) == (20, "and 6 more")


def test_an_edit_of_a_recorded_run(tmp_path: Path) -> None:
    run = tmp_path / RUN_QUICK.name
    shutil.copytree(RUN_QUICK, run)
    assert (checked(run).fault_count, checked(run).notes) == (0, [])
    edit_samples(run, "stream", overlap)
    assert any("start_s: " in note for note in checked(run).notes)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("samples/stream.jsonl", '"' + "a" * (17 << 20) + '"', "jsonl:1: is longer than allowed"),
        ("counters/stream.jsonl", "{}\n" + "a" * (17 << 20) + "\n", "jsonl:2: is longer than"),
    ],
)
def test_long_documents_are_one_line(run: Path, name: str, text: str, words: str) -> None:
    path = run / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    line = refused(run)
    assert words in line
    assert len(line.splitlines()) == 1
