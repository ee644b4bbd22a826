"""`nimc verify` finds changes in a stored run."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nimc.run.verify import verify
from records.chain import digest
from tests.analysis.integrity.sound import edit_header, edit_samples
from tests.captures import RUN_QUICK
from tests.nimc.stored import stored_run

SAMPLES = "samples/stream.jsonl"
COUNTERS = "counters/stream.jsonl"
Edit = Callable[[Path], None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_run(tmp_path_factory.mktemp("stored"))


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    """Returns a copy of the run, which a test may change."""
    return Path(shutil.copytree(sound, tmp_path / sound.name))


def findings(run: Path) -> list[tuple[str, str]]:
    return [(finding.kind, finding.text) for finding in verify(run).findings]


def a_log(run: Path) -> Path:
    return run / "logs/stream/0/3-on-0.out.gz"


def test_a_run_that_nobody_touched_is_sound(sound, command):
    document = command.json("verify", sound)
    (verified,) = document["runs"]
    # There are 26 samples: a warm-up, six pairs of four runs, and a repeated run. The output of
    # STREAM was read again for each.
    assert (verified["sound"], verified["findings"]) == (True, [])
    assert (verified["samples"], verified["reread"], verified["judged"]) == (26, 26, 26)
    assert verified["head"] == json.loads((sound / "run.json").read_text())["head"]
    assert verified["head"] in command("verify", sound)


# Edits by somebody who does not know the chain. The bytes do not agree with it.


def text_edit(name: str, old: str, new: str) -> Edit:
    def edit(run: Path) -> None:
        text = (run / name).read_text()
        assert old in text
        (run / name).write_text(text.replace(old, new, 1))

    return edit


def another_output(run: Path) -> None:
    text = gzip.decompress(a_log(run).read_bytes())
    a_log(run).write_bytes(gzip.compress(text.replace(b"Triad:", b"Triad: "), mtime=0))


def pipe_of_output(run: Path) -> None:
    path = a_log(run)
    path.unlink()
    os.mkfifo(path)


# Edits by somebody who recomputes the chain. Other records contradict them.


def on(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sample `on` of the first pair."""
    return next(sample for sample in records if (sample["arm"], sample["pair"]) == ("on", 0))


def figure(**changes: Any) -> Edit:
    """Return an edit that changes values in the sample `on` of the first pair."""
    return lambda run: edit_samples(run, "stream", lambda records: on(records).update(changes))


def every(name: str, change: Callable[[Any], Any]) -> Edit:
    """Return an edit that changes a value in all samples."""

    def edit(records: list[dict[str, Any]]) -> None:
        for sample in records:
            sample[name] = change(sample[name])

    return lambda run: edit_samples(run, "stream", edit)


def first_writer(**changes: Any) -> Edit:
    """Return an edit that changes values of the first writer in that sample."""
    return lambda run: edit_samples(
        run, "stream", lambda records: on(records)["writers"][0].update(changes)
    )


def edit_series(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the series of the sample `on` of the first pair, and their digest in the sample."""
    path = run / "logs/stream/0/0-on-0.series.json"
    packed = path.with_name(f"{path.name}.gz")
    stored = json.loads(gzip.decompress(packed.read_bytes()))
    change(stored["series"])
    content = json.dumps(stored).encode()
    packed.write_bytes(gzip.compress(content, mtime=0))
    name = path.relative_to(run).as_posix()
    edit_samples(run, "stream", lambda records: on(records)["logs"].update({name: digest(content)}))


#: Description of an edit -> the edit, and the file or field that is named. `tests/records` has more
#: edits that break the chain.
BROKEN: dict[str, tuple[Edit, str]] = {
    "a digit of a figure": (text_edit(SAMPLES, '"elapsed_s":', '"elapsed_s":1'), SAMPLES),
    "a count": (text_edit(COUNTERS, "0.25", "0.35"), "counters_sha256"),
    "all counts removed": (lambda run: (run / COUNTERS).unlink(), "counters_sha256"),
    "another sample's counts": (text_edit(COUNTERS, '"key":"', '"key":"x'), "counters_sha256"),
    "no line of counts": (text_edit(COUNTERS, '{"key"', '["key"'), "not a line of counters"),
    "an output": (another_output, "3-on-0.out: SHA-256"),
    "a pipe in place of an output": (pipe_of_output, "3-on-0.out.gz: "),
    "no head": (text_edit("run.json", '"head"', '"heat"'), "run.json: head: None"),
}
CONTRADICTED: dict[str, tuple[Edit, str]] = {
    "a figure of merit": (figure(fom=9.9e9), ": fom: 9900000000.0 found"),
    "a figure beside it": (
        figure(fom_extra={"average_s": 1.0}),
        ".average_s: 1.0 found",
    ),
    "the unit": (every("fom_unit", lambda _: "1/s"), ": fom_unit: 1/s found; allowed: B/s"),
    "the direction": (every("fom_better", lambda _: "lower"), ": fom_better: lower found"),
    "a writer's rate": (first_writer(rate_b_s=8.0e9), ": writers.0.rate_b_s: 8000000000.0 found"),
    "a proof": (first_writer(proof="device"), ": writers.0.proof: device found; allowed: unproven"),
    "no writer": (figure(writers=[]), ": writers: [] found"),
    "a quiet node": (
        every("conditions", lambda nodes: [{**node, "steal_share": 0.0} for node in nodes]),
        ": conditions.0.steal_share: 0.0 found; allowed: 0.001, by its output or series",
    ),
    "a rejected run": (
        lambda run: edit_series(run, lambda series: series.update(stood_still_s=9.0)),
        ": reason: none found; allowed: the conductor did not run for 9.0 s, by its",
    ),
}


@pytest.mark.parametrize("edit", [*BROKEN, *CONTRADICTED])
def test_what_was_changed_is_found(run, edit):
    kind = "broken" if edit in BROKEN else "contradicted"
    change, named = (BROKEN | CONTRADICTED)[edit]
    change(run)
    verified = verify(run)
    assert not verified.is_sound
    assert any(finding.kind == kind and named in finding.text for finding in verified.findings), (
        verified.findings
    )
    assert kind == "broken" or all(finding.kind != "broken" for finding in verified.findings)


# Changes that `nimc verify` cannot find, and files that may be missing.


def test_the_line_that_counts_further_broken_files_is_no_contradiction(run):
    for number in range(25):
        (run / f"provenance/{number:064x}.json").write_text("{}")
    kinds, texts = zip(*findings(run), strict=True)
    assert (set(kinds), texts[-1]) == ({"broken"}, "and 5 more")


def test_logs_that_are_not_kept_leave_figures_unproven(run, command):
    shutil.rmtree(run / "logs")
    document = command.json("verify", run)
    (verified,) = document["runs"]
    assert [finding["kind"] for finding in verified["findings"]] == ["unproven"] * 3
    assert (verified["reread"], verified["judged"], verified["sound"]) == (0, 0, True)
    assert verified["findings"][0]["text"].endswith("whose output is not kept: 26")
    assert verified["findings"][1]["text"].endswith(
        "series are not kept, or have another version: 26"
    )
    assert verified["findings"][2]["text"].endswith("blocks without a report of ReFrame: 1")


def test_counts_without_a_sample_and_a_torn_line_are_no_fault(run):
    """The conductor of another block was killed after it had stored counts, before the sample."""
    with (run / COUNTERS).open("a") as file:
        first = (run / COUNTERS).read_text().splitlines()[0]
        file.write(first.replace("stream/0/-1/off/0", "stream/1/0/on/0") + '\n{"key":"stre')
    with (run / SAMPLES).open("a") as file:
        file.write('{"key":"stream/1/0/o')
    assert findings(run) == []


def test_a_recorded_run_without_its_outputs_is_unproven(command):
    first, *lines = command("verify", RUN_QUICK).splitlines()
    head = json.loads((RUN_QUICK / "run.json").read_text())["head"]
    assert first.endswith(f"head {head}")
    assert [line.partition(":")[0] for line in lines] == ["unproven"] * 2


def test_only_a_head_that_is_kept_elsewhere_shows_a_forged_run(run, command):
    """The forger has changed the versions in the header and recomputed the chain."""
    kept = verify(run).head
    assert kept
    command("verify", run, "--head", kept)
    edit_header(run, lambda header: header.update(versions={"nimc": "better"}))
    command("verify", run)
    assert "broken: " in command("verify", run, "--head", kept, code=2)


def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path, run, command):
    assert command.refused("verify", tmp_path).startswith(f"{tmp_path}: not a run folder")
    assert "--head" in command.refused("verify", run, run, "--head", "0")


def test_a_run_that_cannot_be_read_is_broken(run, command):
    (run / SAMPLES).write_text('{"key": 3}\n')
    (verified,) = command.json("verify", run, code=2)["runs"]
    assert (verified["head"], verified["samples"]) == (None, 0)
    assert verified["findings"][0]["text"].startswith(f"{run}/{SAMPLES}:1: ")
