"""Edits of a sound run: refused if its results would be wrong, noted if it is odd."""

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
from analysis.report.page import make_reports, render
from analysis.samples.faults import UNPROVEN
from records.errors import InputError
from tests.analysis.integrity.sound import Json, checked, edit_header, edit_samples, sound_run
from tests.analysis.synthetic import PROVENANCE, Case, samples, write_run
from tests.captures import RUN_QUICK


def of_arm(records: list[Json], arm: str, pair: int = 0) -> Json:
    return next(r for r in records if (r["arm"], r["pair"], r["outcome"]) == (arm, pair, "kept"))


def setting(arm: str, /, **fields: Any) -> Callable[[list[Json]], None]:
    """Other values of fields of the first pair's run."""
    return lambda records: of_arm(records, arm).update(fields)


def writer(number: int, /, **fields: Any) -> Callable[[list[Json]], None]:
    """Other values of fields of a writer of the first pair's `on`."""
    return lambda records: of_arm(records, "on")["writers"][number].update(fields)


def overlap(records: list[Json]) -> None:
    for record in records:
        record["start_s"] = records[0]["start_s"]


def accept_both(records: list[Json]) -> None:
    for record in records:
        if record["outcome"] == "rejected":
            record.update(outcome="kept", reason=None)


def second_first(records: list[Json]) -> None:
    """An accepted run again, as an earlier attempt of itself."""
    at = records.index(of_arm(records, "on"))
    records[at].update(attempt=1, key=records[at]["key"][:-1] + "1")
    again = {**deepcopy(records[at]), "attempt": 0, "fom": records[at]["fom"] * 2}
    records.insert(at, {**again, "key": again["key"][:-1] + "0"})


def without(matches: Callable[[Json], bool]) -> Callable[[list[Json]], list[Json]]:
    return lambda records: [record for record in records if not matches(record)]


#: What was done to the samples of STREAM -> words of a fault.
FAULTS: dict[str, tuple[Callable[[list[Json]], Any], str]] = {
    "a key that is not its fields": (setting("on", key="stream/0/9/on/0"), "key: "),
    "a pair that is not the key's": (setting("on", pair=7), "allowed: CASE/BLOCK/PAIR"),
    "a rejected run accepted": (accept_both, "one accepted attempt of a run"),
    "a second accepted attempt": (second_first, "one accepted attempt of a run"),
    "no writers": (setting("on", writers=[]), "at least 1 in an accepted run"),
    "bytes 0": (writer(0, bytes_b=0.0), "writer_bytes_b: 0.0 found"),
    "a dead writer of two": (
        writer(1, rate_b_s=0.0, rate_min_b_s=0.0, bytes_b=0.0, rate_alone_b_s=0.0),
        "writer_share: 0.0 found",
    ),
    "a slow writer of two": (writer(1, rate_min_b_s=8.1e8), "at least 0.5: 'min_share'"),
    "a writer less than elsewhere": (
        lambda records: of_arm(records, "on")["writers"].pop(),
        "writers: 1 found; allowed: as in other runs of the treatment",
    ),
    "another transport": (writer(0, transport="InfiniBand"), "transport: "),
    "another unit": (setting("aa", fom_unit="s"), "fom_unit: "),
    "another direction": (setting("aa", fom_better="lower"), "fom_better: "),
    "off with a writer": (
        lambda records: of_arm(records, "off").update(writers=of_arm(records, "on")["writers"]),
        "0: the arm is silent",
    ),
    "a control that writes": (
        lambda records: of_arm(records, "spin").update(writers=of_arm(records, "on")["writers"]),
        "0 of a control",
    ),
    "a control that is not there": (setting("spin", writers=[]), "at least the control"),
    "other nodes within a pair": (setting("on", nodes=["other"]), "the same in all runs"),
    "another role": (setting("aa", role="baseline", baseline=None), "role: "),
    "another baseline": (setting("aa", baseline=None), "absent of a baseline, and given of others"),
    "a pair that is a warm-up": (setting("off", warmup=True), "true if 'pair' is below 0"),
    "other factors": (setting("on", factors={"rate": "25%"}), "factors: "),
}
#: The same of what is odd -> words of a note.
NOTES: dict[str, tuple[Callable[[list[Json]], Any], str]] = {
    "an arm that was not asked": (
        setting("on", arm="full", key="stream/0/0/full/0"),
        "'full' was not asked",
    ),
    "overlapping times": (overlap, "allowed: after the end of the run before"),
    "provenance that is not there": (
        setting("on", provenance="1" * 64),
        "how it was made is unproven",
    ),
    "an accepted run deleted": (
        without(lambda r: (r["pair"], r["arm"]) == (1, "off")),
        "pair: 1 found; allowed: one with a run of every treatment",
    ),
    "an arm deleted": (without(lambda r: r["arm"] == "spin"), "has no accepted run of spin"),
    "a run before the campaign": (setting("off", start_s=1.0), "after the run's start"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound_run(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    """A copy, to be edited."""
    return Path(shutil.copytree(sound, tmp_path / sound.name))


def refused(run: Path) -> str:
    with pytest.raises(InputError) as error:
        load_run(run)
    return str(error.value)


def test_the_run_is_sound_before(run: Path) -> None:
    found = load_run(run)
    assert (found.integrity.faults, found.integrity.notes) == ([], [])
    assert found.samples.height == 2 * (1 + 6 * 4 + 1)


@pytest.mark.parametrize("edit", FAULTS)
def test_what_makes_a_result_wrong_is_refused(run: Path, edit: str) -> None:
    change, words = FAULTS[edit]
    edit_samples(run, "stream", change)
    assert words in refused(run)
    assert any(words in line for line in checked(run).faults)


#: What was done to the first accepted run of 'daly' -> words of the fault.
OFF_TIMETABLE: dict[str, tuple[dict[str, Any], str]] = {
    "no timetable": ({"timetable": None}, "present: the arm follows one"),
    "no writers": ({"writers": []}, "as many as the timetable has at a time"),
    "writing is missing": ({"missing_share": 0.11}, "missing_share: 0.11 found; allowed: at most"),
    "too much writing": ({"excess_share": 0.11}, "excess_share: 0.11 found; allowed: at most"),
}


@pytest.mark.parametrize("edit", OFF_TIMETABLE)
def test_short_writes_must_meet_their_timetable(tmp_path: Path, edit: str) -> None:
    """A tenth of the writing may be missing, or in excess."""
    changes, words = OFF_TIMETABLE[edit]
    run = write_run(tmp_path / "run", samples(Case("melt", "s", "lower", 1.0, {"daly": 1.1})))
    assert checked(run).faults == []

    def change(records: list[Json]) -> None:
        record = of_arm(records, "daly")
        shares = {name: value for name, value in changes.items() if name.endswith("_share")}
        record["timetable"].update(shares)
        record.update({name: value for name, value in changes.items() if name not in shares})

    edit_samples(run, "melt", change)
    assert any(words in line for line in checked(run).faults)


@pytest.mark.parametrize("edit", NOTES)
def test_what_is_odd_is_noted(run: Path, edit: str) -> None:
    change, words = NOTES[edit]
    edit_samples(run, "stream", change)
    found = load_run(run)
    assert any(words in line for line in found.integrity.notes)
    assert words in unescape(render([found]))


def test_a_page_with_faults_is_marked(run: Path) -> None:
    """Axes at the ends of what floating point can hold; and one that goes backwards."""
    hard_to_draw = [
        ("on", {"fom": 5e-324}, "fom: 5e-324 found"),
        ("aa", {"fom": 1e300}, "fom: 1e+300 found"),
        ("spin", {"elapsed_s": -1.0}, "elapsed_s: -1.0 found"),
    ]
    for arm, fields, _ in hard_to_draw:
        edit_samples(run, "stream", setting(arm, **fields))
    text = refused(run)
    assert text.startswith(f"{run}: ")
    assert "not to be trusted\n" in text
    (report,) = make_reports([run], force=True)
    page = report.page.read_text()
    assert "not to be trusted" in page
    assert "<path" in page
    (document,) = json.loads(report.data[0].read_text())["runs"]
    for _, _, words in hard_to_draw:
        assert words in text
        assert any(words in line for line in document["integrity_faults"])


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda head: head.update(machine="../../x"), "machine: '"),
        (lambda head: head.update(campaign="a\nb"), "campaign: "),
        (lambda head: head["asked"]["cases"].update({"../x": ["off"]}), "allowed: plain names"),
        (lambda head: head["facts"].update(site={"references": 3}), "facts.site.references"),
        (
            lambda head: head["facts"].update(site={"references": {"stream": "fast"}}),
            "facts.site.references.stream",
        ),
        (
            lambda head: head["facts"].update(site={"reference_tolerance": {}}),
            "facts.site.reference_tolerance",
        ),
        (lambda head: head.update(facts={"site": 3}), "facts.site"),
        (lambda head: head.update(finished_s=1.0), "finished_s: 1.0 found; allowed: after"),
        (lambda head: head.update(pairs_cap=1), "pairs_cap: 1 found; allowed: from pairs_floor, 6"),
        (lambda head: head.update(pairs_cap=10**400), "pairs_cap: "),
        (lambda head: head.update(asked=None), "asked: "),
    ],
)
def test_an_edit_of_the_header_is_one_line(
    run: Path, edit: Callable[[Json], None], words: str
) -> None:
    edit_header(run, edit)
    assert words in refused(run)


def test_a_case_that_was_deleted_is_noted(run: Path) -> None:
    def notes() -> list[str]:
        return load_run(run).integrity.notes

    (run / "samples" / "lammps.jsonl").unlink()
    edit_header(run, lambda head: head)
    assert notes() == [f"{run}: case 'lammps' has no accepted run of off, on, spin, aa"]
    edit_header(run, lambda head: head.update(finished_s=None))
    assert notes() == []  # it was not begun yet
    edit_header(run, lambda head: head.update(finished_s=2e9))
    edit_header(run, lambda head: head["asked"].update(optional=["lammps"]))
    assert notes() == []


def test_provenance_is_named_by_its_content(run: Path) -> None:
    path = run / "provenance" / f"{PROVENANCE}.json"
    path.write_text('{"synthetic": false}')
    assert f"{path}: SHA-256 of its content:" in refused(run)
    path.unlink()
    (note, *_) = load_run(run).integrity.notes
    assert "provenance: " in note


@pytest.mark.parametrize("numa", [3, None, [], {"load": "write"}, {"numa_nodes": "two"}])
def test_provenance_of_another_type_is_one_line(run: Path, numa: object) -> None:
    text = json.dumps({"numa": numa})
    name = hashlib.sha256(text.encode()).hexdigest()
    (run / "provenance" / f"{name}.json").write_text(text)
    assert f"{name}.json: numa" in refused(run)


@pytest.mark.parametrize(("early_s", "noted"), [(61.0, True), (59.0, False)])
def test_no_run_ends_after_its_campaign(run: Path, early_s: float, noted: bool) -> None:
    """Clocks may differ by a minute."""
    samples = [json.loads(line) for file in run.glob("samples/*.jsonl") for line in file.open()]
    ended_s = max(each["start_s"] + each["elapsed_s"] for each in samples)
    edit_header(run, lambda head: head.update(finished_s=ended_s - early_s))
    found = load_run(run).integrity.notes
    assert any("before the run's end" in each for each in found) == noted


@pytest.mark.parametrize("made", range(1, 7))
def test_a_run_may_be_stopped_anywhere_in_its_first_pairs(run: Path, made: int) -> None:
    """A warm-up, and pairs of four treatments."""
    edit_header(run, lambda head: head.update(finished_s=None))
    edit_samples(run, "stream", lambda records: records[:made])
    assert load_run(run).integrity.faults == []


def test_a_copied_folder_is_only_noted(run: Path, tmp_path: Path) -> None:
    found = load_run(run.rename(tmp_path / "copy"))
    assert found.integrity.count == 0
    assert found.integrity.notes == ["the folder copy holds the run sound-run"]
    assert "the folder copy holds the run sound-run" in render([found])


def test_only_the_first_twenty_faults_are_listed(run: Path) -> None:
    def mark(records: list[Json]) -> None:
        for record in records:
            record["elapsed_s"] = -1.0

    edit_samples(run, "stream", mark)
    first, *lines, more = refused(run).splitlines()
    assert first == f"{run}: 26 integrity faults: not to be trusted"
    assert (len(lines), more) == (20, "and 6 more")


def test_an_edit_of_a_recorded_run(tmp_path: Path) -> None:
    run = tmp_path / RUN_QUICK.name
    shutil.copytree(RUN_QUICK, run)
    found = load_run(run).integrity
    assert (found.count, found.notes) == (0, [UNPROVEN])
    edit_samples(run, "stream", overlap)
    assert any("start_s: " in note for note in load_run(run).integrity.notes)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("run.json", '"' + "a" * (16 << 20) + '"', "is longer than allowed: 16 MiB"),
        ("samples/stream.jsonl", '"' + "a" * (17 << 20) + '"', "jsonl:1: is longer than allowed"),
        ("counters/stream.jsonl", '"' + "a" * (17 << 20) + '"\n', "jsonl:1: is longer than"),
    ],
)
def test_long_documents_are_one_line(run: Path, name: str, text: str, words: str) -> None:
    path = run / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    found = refused(run)
    assert words in found
    assert len(found.splitlines()) == 1


def test_a_loop_of_links_is_one_line(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match=r"loop/run\.json: Too many levels of symbolic links"):
        make_reports([loop], tmp_path / "out")
