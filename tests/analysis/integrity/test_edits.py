"""Edits of a sound run, each of which was once taken for a measurement or ended in a traceback."""

import hashlib
import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from analysis.report.data import load_run
from analysis.report.page import make_reports, render
from analysis.samples.faults import UNPROVEN
from nimc.base.errors import InputError
from tests.analysis.integrity.sound import Json, checked, edit_header, edit_samples, sound_run
from tests.analysis.synthetic import PROVENANCE
from tests.captures import RUN_QUICK


def of_arm(records: list[Json], arm: str, pair: int = 0) -> Json:
    return next(r for r in records if (r["arm"], r["pair"], r["outcome"]) == (arm, pair, "kept"))


def setting(arm: str, /, **fields: Any) -> Callable[[list[Json]], None]:
    """Other values of fields of the first pair's run."""
    return lambda records: of_arm(records, arm).update(fields)


def writer(number: int, /, **fields: Any) -> Callable[[list[Json]], None]:
    """Other values of fields of a writer of the first pair's `on`."""
    return lambda records: of_arm(records, "on")["writers"][number].update(fields)


def control(**fields: Any) -> Callable[[list[Json]], None]:
    """Other values of fields of the control of the first pair."""
    return lambda records: of_arm(records, "spin")["writers"][0].update(fields)


def all_positions_0(records: list[Json]) -> None:
    for record in records:
        record["position"] = 0


def exchange(records: list[Json]) -> None:
    """The positions and the place of the first two runs of a pair, with all that belongs to it."""
    first, second = records[1], records[2]
    for name in ("position", "start_s"):
        first[name], second[name] = second[name], first[name]
    second["elapsed_s"] = first["elapsed_s"] = min(first["elapsed_s"], second["elapsed_s"])
    records[1], records[2] = second, first


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


def five_times(records: list[Json]) -> list[Json]:
    """All pairs of the block five times, with times and keys of their own."""
    last = records[-1]
    length_s = last["start_s"] + last["elapsed_s"] + 1 - records[0]["start_s"]
    copies = list(records)
    for copy in range(1, 5):
        for record in records[1:]:
            pair = record["pair"] + 6 * copy
            case, block, _, arm, attempt = record["key"].split("/")
            key = f"{case}/{block}/{pair}/{arm}/{attempt}"
            start_s = record["start_s"] + copy * length_s
            copies.append({**record, "pair": pair, "key": key, "start_s": start_s})
    return copies


def five_blocks(records: list[Json]) -> list[Json]:
    """All blocks five times, with times and keys of their own."""
    last = records[-1]
    length_s = last["start_s"] + last["elapsed_s"] + 5 - records[0]["start_s"]
    return [
        {
            **record,
            "block": copy,
            "key": record["key"].replace("/0/", f"/{copy}/", 1),
            "start_s": record["start_s"] + copy * length_s,
            "elapsed_s": record["elapsed_s"] * (1 + 1e-7 * copy),  # no run is another's copy
        }
        for copy in range(5)
        for record in records
    ]


def without(matches: Callable[[Json], bool]) -> Callable[[list[Json]], list[Json]]:
    return lambda records: [record for record in records if not matches(record)]


#: What was done to the samples of STREAM -> words of a fault.
SAMPLES: dict[str, tuple[Callable[[list[Json]], Any], str]] = {
    "a key that is not its fields": (setting("on", key="stream/0/9/on/0"), "key: "),
    "a pair that is not the key's": (setting("on", pair=7), "pair: 7 found"),
    "an arm that was not asked": (setting("on", arm="full"), "arm: 'full' found"),
    "positions all 0": (all_positions_0, "position: 0 found"),
    "positions that were not drawn": (exchange, "follows from the run's seed"),
    "overlapping times": (overlap, "start_s: "),
    "a rejected run accepted": (accept_both, "absent: the run was accepted before"),
    "a second accepted attempt": (second_first, "absent: the run was accepted before"),
    "all pairs five times": (five_times, "allowed: before the run's end"),
    "all blocks five times": (five_blocks, "allowed: before the run's end"),
    "no writers": (setting("on", writers=[]), "at least 1 in an accepted run"),
    "a timetable of 0": (
        setting(
            "on",
            writers=[],
            timetable={"writers": 0, "length_s": 1, "tolerance_s": 1, "allowed_share": 1},
        ),
        "timetable: 0 found; allowed: absent",
    ),
    "bytes 0": (writer(0, bytes_b=0.0), "writer_bytes_b: 0.0 found"),
    "a dead writer of two": (
        writer(1, rate_b_s=0.0, rate_min_b_s=0.0, bytes_b=0.0, rate_alone_b_s=0.0),
        "writer_share: 0.0 found",
    ),
    "a slow writer of two": (writer(1, rate_min_b_s=8.1e8), "at least 0.5: 'min_share'"),
    "a writer less than elsewhere": (
        lambda records: of_arm(records, "on")["writers"].pop(),
        "writers: 2 found; allowed: 1 as in other",
    ),
    "another transport": (writer(0, transport="InfiniBand"), "transport: "),
    "a foreign origin": (writer(0, origin="elsewhere"), "writers.origin: "),
    "off with a writer": (
        lambda records: of_arm(records, "off").update(writers=of_arm(records, "on")["writers"]),
        "0: the arm is silent",
    ),
    "a control that writes": (
        lambda records: of_arm(records, "spin").update(writers=of_arm(records, "on")["writers"]),
        "0 of a control",
    ),
    "another control": (control(injector="ucx"), "the control that the arm is named after"),
    "a control with a transport": (control(transport="InfiniBand"), "'none' of a control"),
    "a control that was idle": (control(cpu_share=0.0), "above 0 of a control"),
    "a control that a device counted": (control(proof="device"), "null of a control"),
    "a control that wrote": (control(rate_b_s=1.0), "0 of a control"),
    "processor time of a writer": (writer(0, cpu_share=0.5), "null of a writer"),
    "other nodes within a pair": (setting("on", nodes=["other"]), "the same in all runs"),
    "another seed": (setting("on", seed=7), "seed: '7' found"),
    "provenance that is not there": (setting("on", provenance="1" * 64), "allowed: a file of"),
    "a rejected run deleted": (without(lambda r: r["outcome"] == "rejected"), "attempt: "),
    "an accepted run deleted": (
        without(lambda r: (r["pair"], r["arm"]) == (1, "off")),
        "position: ",
    ),
    "the last pair deleted": (without(lambda r: r["pair"] == 5), "in a finished run"),
    "a reason of an accepted run": (setting("on", reason="none"), "reason: "),
    "no reason of a rejected run": (setting("on", outcome="rejected"), "reason: None found"),
    "a run before the campaign": (setting("off", start_s=1.0), "after the run's start"),
    "another case": (
        setting("on", case="lammps"),
        "stream.jsonl: case: 'lammps' found; allowed: the file's name",
    ),
    "another role": (setting("aa", role="baseline", baseline=None), "role: "),
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


@pytest.mark.parametrize("edit", SAMPLES)
def test_an_edit_of_samples_is_a_fault(run: Path, edit: str) -> None:
    change, words = SAMPLES[edit]
    edit_samples(run, "stream", change)
    assert any(words in line for line in checked(run).faults)


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
        (lambda head: head.update(seed=7), "seed: does not follow"),
        (lambda head: head.update(asked=None), "asked: "),
        (lambda head: head["asked"]["cases"].update(snap=["off", "on"]), "snap.jsonl: is missing"),
        (lambda head: head["asked"].update(retries=0), "the campaign's 'retries'"),
    ],
)
def test_an_edit_of_the_header_is_one_line(
    run: Path, edit: Callable[[Json], None], words: str
) -> None:
    edit_header(run, edit)
    assert words in refused(run)


def test_a_case_that_was_deleted_is_missing(run: Path) -> None:
    (run / "samples" / "lammps.jsonl").unlink()
    assert "lammps.jsonl: is missing" in refused(run)
    edit_header(run, lambda head: head.update(finished_s=None))
    assert load_run(run).integrity.count == 0  # it was not begun yet
    edit_header(run, lambda head: head.update(finished_s=2e9))
    edit_header(run, lambda head: head["asked"].update(optional=["lammps"]))
    assert load_run(run).integrity.count == 0


def test_provenance_is_named_by_its_content(run: Path) -> None:
    path = run / "provenance" / f"{PROVENANCE}.json"
    path.write_text('{"synthetic": false}')
    assert f"{path}: SHA-256 of its content:" in refused(run)
    path.unlink()
    assert "provenance: " in refused(run)


@pytest.mark.parametrize("numa", [3, None, [], {"load": "write"}, {"numa_nodes": "two"}])
def test_provenance_of_another_type_is_one_line(run: Path, numa: object) -> None:
    text = json.dumps({"numa": numa})
    name = hashlib.sha256(text.encode()).hexdigest()
    (run / "provenance" / f"{name}.json").write_text(text)
    assert f"{name}.json: numa" in refused(run)


def test_more_pairs_than_the_campaign_allows(run: Path) -> None:
    edit_samples(run, "stream", five_blocks)
    edit_header(run, lambda head: head.update(finished_s=head["finished_s"] + 1e4, seed=None))
    found = load_run(run, force=True).integrity
    assert found.faults == [
        f"{run}/samples/stream.jsonl: has 30 complete pairs, must have at most 6, the campaign's"
        " cap"
    ]


def without_the_last_control(records: list[Json]) -> list[Json]:
    """The last run of 'spin' was rejected three times, as often as it may be."""
    found, later_s = [], 0.0
    for record in records:
        if (record["pair"], record["arm"]) != (5, "spin"):
            found.append({**record, "start_s": record["start_s"] + later_s})
            continue
        for attempt in range(3):
            changes = {"outcome": "rejected", "reason": "x", "attempt": attempt}
            changes["start_s"] = record["start_s"] + attempt * (record["elapsed_s"] + 1)
            found.append({**record, **changes, "key": f"{record['key'][:-1]}{attempt}"})
        later_s = 2 * (record["elapsed_s"] + 1)
    return found


def test_a_control_may_lack_pairs_if_the_others_have_as_many_as_are_allowed(run: Path) -> None:
    edit_header(run, lambda head: head.update(finished_s=head["finished_s"] + 1e4))
    edit_samples(run, "lammps", without_the_last_control)
    assert load_run(run).integrity.faults == []
    edit_header(run, lambda head: head.update(pairs_cap=7))
    assert "has 5 accepted runs of 'spin', must have at least 6 in a finished run" in refused(run)


def two_blocks(records: list[Json]) -> None:
    """The last two pairs of six become those of another block; no block has a warm-up."""
    records.pop(0)
    for record in records:
        if record["pair"] >= 4:
            record.update(block=1, pair=record["pair"] - 4)
            names = [str(record[name]) for name in ("case", "block", "pair", "arm", "attempt")]
            record["key"] = "/".join(names)


def test_a_block_continues_the_order_of_the_one_before(run: Path) -> None:
    edit_samples(run, "stream", two_blocks)
    assert load_run(run).integrity.count == 0
    # Of schema 2, the second block began an order of its own: that of its first pair differs.
    edit_header(run, lambda head: head.update(schema=2))
    assert "stream.jsonl:" in refused(run)
    assert "the order that follows from the run's seed" in refused(run)


@pytest.mark.parametrize(("early_s", "faults"), [(61.0, True), (59.0, False)])
def test_no_run_ends_after_its_campaign(run: Path, early_s: float, faults: bool) -> None:
    """Clocks may differ by a minute."""
    samples = [json.loads(line) for file in run.glob("samples/*.jsonl") for line in file.open()]
    ended_s = max(each["start_s"] + each["elapsed_s"] for each in samples)
    edit_header(run, lambda head: head.update(finished_s=ended_s - early_s))
    found = load_run(run, force=True).integrity.faults
    assert any("before the run's end" in str(each) for each in found) == faults


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
            record["reason"] = None if record["reason"] else "x"

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
    assert "start_s: " in refused(run)


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
