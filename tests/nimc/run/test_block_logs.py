"""ReFrame's reports and the writers' outputs, against the samples of their block."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nimc.run.verify import verify
from tests.analysis.integrity.between import made_between
from tests.analysis.integrity.files import Json, Run
from tests.captures import RUN_QUICK

REPORT = "logs/stream/0/reframe.json"
LINK = "logs/stream/0/writer-0-origin.log"
Edit = Callable[[Run], Any]


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_between(tmp_path_factory.mktemp("between"))


def faults_of(run: Path) -> list[str]:
    return [each.text for each in verify(run).findings if each.kind != "unproven"]


def session(**values: Any) -> Edit:
    return lambda run: run.logs[REPORT]["session_info"].update(
        {k: v(run) if callable(v) else v for k, v in values.items()}
    )


def check_of(run: Run) -> Json:
    (case,) = run.logs[REPORT]["runs"][0]["testcases"]
    found: Json = case
    return found


def reported(**values: Any) -> Edit:
    return lambda run: check_of(run).update(values)


def figure(name: str, change: Callable[[float], float]) -> Edit:
    def edit(run: Run) -> None:
        value = check_of(run)["perfvalues"][f"made:default:{name}"]
        value[0] = change(value[0])

    return edit


def first_s(run: Run) -> float:
    return float(min(each["start_s"] for each in run.samples["stream"]))


def last_s(run: Run) -> float:
    """When the runs of the first block ended."""
    first = [each for each in run.samples["stream"] if each["block"] == 0]
    return float(max(each["start_s"] + each["elapsed_s"] for each in first))


def link(text: str) -> Edit:
    return lambda run: run.outputs.update({LINK: text})


def header(**values: Any) -> Edit:
    return lambda run: run.header.update(values)


def quiet(case: str, at: int) -> Edit:
    """Another condition of one sample, which no other record has."""
    return lambda run: run.samples[case][at]["conditions"][0].update(foreign_cpus=0.0)


def all_of(*edits: Edit) -> Edit:
    return lambda run: [edit(run) for edit in edits]


def later(run: Run) -> None:
    """Sessions that begin long after the run, which starts 3 s before the first."""
    for report in run.recorded("reframe.json"):
        report["session_info"].update(time_start_unix=first_s(run))


#: What breaks rules, what nearly does, and words of the faults. Only edits that leave each other
#: alone are together.
RULES: list[tuple[Edit, Edit, list[str]]] = [
    (
        all_of(
            figure("on", lambda value: value * 1.0001),
            figure("slowdown_on@rate=25%", lambda value: value * 1.0001),
            figure("rejected_aa", lambda _: 1),
            reported(nimc_dir="/results/another-run", seed=3, notes=["a made note", "another"]),
            session(time_start_unix=lambda run: first_s(run) + 70.0, version="4.9"),
            session(nimc_head="0" * 64),
            link(" Link type       : Ethernet\n"),
        ),
        all_of(
            figure("on", lambda value: value * (1 + 1e-12)),
            # Intervals may be made in another way some day.
            figure("slowdown_on@rate=25%_low", lambda value: value * 1.0001),
            figure("rejected_aa", lambda _: 0),
            reported(nimc_dir="", seed=None, notes=[]),
            session(time_start_unix=lambda run: first_s(run) + 50.0, nimc_head=None),
            link(" Link type       : Unknown\n"),
        ),
        [
            *("'on': ", "'slowdown_on@rate=25%': ", "'rejected_aa': 1 found; allowed: 0"),
            *("nimc_dir: 'another-run' found", "seed: 3 found", "notes: 'another' found"),
            *("session_info: ", "version: '4.9' found", "nimc_head: "),
            "transport: 'InfiniBand' found; allowed: one over Ethernet",
        ],
    ),
    (
        session(time_end_unix=lambda run: last_s(run) - 70.0),
        session(time_end_unix=lambda run: last_s(run) - 50.0),
        ["session_info: "],
    ),
    # A block that failed.
    (
        figure("on", lambda value: value / 2),
        all_of(figure("on", lambda value: value / 2), reported(result="fail")),
        ["'on': "],
    ),
    # A run that is resumed may be of another version.
    (header(commit="0123"), all_of(header(commit="0123"), later), ["commit: "]),
    # The chain is recomputed; that of an earlier block is in the report of the next.
    (quiet("stream", 0), quiet("lammps", -1), ["stream/1/reframe.json: nimc_head"]),
    # A run that once had a chain.
    (
        lambda run: (header(schema=3)(run), [each.update(schema=3) for each in run.all()]),
        header(),
        ["nimc_head: "],
    ),
    # A report that cannot be read.
    (
        session(version="4.9"),
        lambda run: run.logs.update({REPORT: {"session_info": 3}}),
        ["version: '4.9'"],
    ),
]


@pytest.mark.parametrize(("breaks", "nearly", "words"), RULES)
def test_rules_are_broken_and_their_neighbours_are_not(
    between: Path, tmp_path: Path, breaks: Edit, nearly: Edit, words: list[str]
) -> None:
    for edit, broken in ((breaks, True), (nearly, False)):
        edited = Run.read(between)
        edit(edited)
        found = faults_of(edited.write(tmp_path / str(broken) / between.name))
        for each in words:
            assert any(each in line for line in found) is broken, (each, found)


def test_a_made_run_and_its_logs_are_sound(between: Path) -> None:
    assert verify(between).findings == []


def test_the_recorded_report_is_that_of_the_recorded_samples(tmp_path: Path) -> None:
    """ReFrame's own report of a run that was measured: medians by an earlier version."""
    assert faults_of(RUN_QUICK) == []
    edited = Run.read(RUN_QUICK)
    for sample in edited.kept("on", "lammps"):
        sample["fom"] *= 0.9
    found = faults_of(edited.write(tmp_path / RUN_QUICK.name))
    report = json.loads((RUN_QUICK / "logs/lammps/0/reframe.json").read_text())
    recorded = report["runs"][0]["testcases"][0]["perfvalues"]["localhost:default:on"][0]
    assert any(
        f"'on': {recorded!r} found; allowed: {repr(recorded * 0.9)[:6]}" in line for line in found
    )
