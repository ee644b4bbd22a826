"""This version resumes, reports and verifies a run whose first samples have schema 6."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.commands import CAMPAIGN, Command, Nimc
from tests.schema_6 import rewrite_as_schema_6


def count_verified_samples(command: Command, run: Path) -> int:
    """Return the number of samples of a run that `nimc verify` finds sound."""
    (verified,) = command.json("verify", run)["runs"]
    assert verified["sound"], verified["findings"]
    samples: int = verified["samples"]
    return samples


def report_of(nimc: Nimc, run: Path) -> dict[str, Any]:
    """Return a run in the document of `nimc report`."""
    status, out, err = nimc.typed(["report", str(run), "--json"], nimc.folder)
    assert status == 0, err
    (report,) = json.loads(out)["reports"]
    (run_report,) = report["runs"]
    return run_report


def read_samples(text: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


class InterruptedRun(NamedTuple):
    """A run that was interrupted while it wrote a line. Its samples have schema 6."""

    path: Path
    samples_path: Path
    #: The complete lines of the samples.
    measured: bytes


@pytest.fixture
def interrupted(nimc: Nimc) -> InterruptedRun:
    """Returns a run with a warm-up and three pairs of `off`, `on` and `aa`.

    In two of the pairs, `on` is rejected.
    """
    nimc.ended(faults="torn,scarce", code=3)
    run = nimc.the_run()
    rewrite_as_schema_6(run)
    samples_path = run / "samples/stream.jsonl"
    measured, _, torn_line = samples_path.read_bytes().rpartition(b"\n")
    assert torn_line
    return InterruptedRun(run, samples_path, measured)


def test_samples_of_schema_6_are_verified(command: Command, interrupted: InterruptedRun) -> None:
    samples = read_samples(interrupted.measured)
    outcomes = Counter(sample["outcome"] for sample in samples)
    assert outcomes == {"kept": 1 + 3 + 2 + 2, "rejected": 3 + 3}  # `on` is tried three times
    assert {sample["schema"] for sample in samples} == {6}
    assert count_verified_samples(command, interrupted.path) == 14


def test_a_run_of_schema_6_is_resumed_with_samples_of_schema_7(
    nimc: Nimc, interrupted: InterruptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`on` has one of six pairs. So a warm-up and five pairs of three runs follow."""
    # nimc prints each change of the counts.
    monkeypatch.setattr("nimc.run.progress.LINE_INTERVAL_S", 0.0)
    _, err = nimc.ended()
    assert f"resumes {interrupted.path}" in err
    assert "stream, block 1: 0 of 16 runs, " in err
    assert "stream, block 1: 16 of 16 runs, " in err
    text = interrupted.samples_path.read_bytes()
    assert text.startswith(interrupted.measured + b"\n")
    new_samples = read_samples(text)[14:]
    assert len(new_samples) == 16
    for sample in new_samples:
        assert (sample["schema"], sample["outcome"], sample["block"]) == (7, "accepted", 1)


def test_nothing_that_schema_6_recorded_is_lost(
    nimc: Nimc, command: Command, interrupted: InterruptedRun
) -> None:
    out, _ = nimc.ended("--json")
    document = json.loads(out)
    assert document["integrity_faults"] == []
    counts = {row["arm"]: (row["pairs"], row["rejected"]) for row in document["results"]}
    assert counts == {"on": (1 + 5, 6), "aa": (3 + 5, 0)}
    assert count_verified_samples(command, interrupted.path) == 14 + 16
    (listed,) = command.json("runs", "--results", nimc.results)["runs"]
    assert (listed["samples"], listed["rejected"], listed["state"]) == (30, 6, "finished")
    assert report_of(nimc, interrupted.path)["head"] == nimc.header()["head"]


@pytest.mark.slow
def test_a_finished_run_of_schema_6_is_continued_with_more_pairs(
    nimc: Nimc, command: Command
) -> None:
    nimc.write(CAMPAIGN.replace("cap: 6", "cap: 6, precision: 0.001"))
    nimc.ended(faults="faint")
    run = nimc.the_run()
    rewrite_as_schema_6(run)
    assert count_verified_samples(command, run) == 1 + 6 * 3
    nimc.ended("--pairs", "8", faults="faint")
    assert nimc.the_run() == run
    pairs = {row["arm"]: row["pairs"] for row in report_of(nimc, run)["results"]}
    assert pairs == {"on": 8, "aa": 8}
    assert count_verified_samples(command, run) == (1 + 6 * 3) + (1 + 2 * 3)
