"""A run whose first samples are of schema 6 is resumed, reported and verified by this version."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.commands import CAMPAIGN, Command, Nimc
from tests.schema_6 import rewrite_as_schema_6


def verified_samples(command: Command, run: Path) -> int:
    """Number of samples of a run that `nimc verify` finds sound."""
    (verified,) = command.json("verify", run)["runs"]
    assert verified["sound"], verified["findings"]
    samples: int = verified["samples"]
    return samples


def reported(nimc: Nimc, run: Path) -> dict[str, Any]:
    """What `nimc report` says of a run."""
    status, out, err = nimc.typed(["report", str(run), "--json"], nimc.folder)
    assert status == 0, err
    (report,) = json.loads(out)["reports"]
    (run_report,) = report["runs"]
    return run_report


def test_an_interrupted_run_is_resumed_and_nothing_measured_is_lost(nimc, command, monkeypatch):
    monkeypatch.setattr("nimc.run.progress.PLAIN_S", 0.0)  # each change of the counts is printed
    nimc.ended(fake="torn,scarce", code=3)
    run = nimc.the_run()
    rewrite_as_schema_6(run)
    file = run / "samples/stream.jsonl"
    measured, _, torn = file.read_bytes().rpartition(b"\n")
    assert torn
    # A warm-up and three pairs of `off`, `on` and `aa`. In two pairs `on` is rejected three times.
    records = [json.loads(line) for line in measured.splitlines()]
    outcomes = Counter(record["outcome"] for record in records)
    assert outcomes == {"kept": 1 + 3 + 2 + 2, "rejected": 3 + 3}
    assert {record["schema"] for record in records} == {6}
    assert verified_samples(command, run) == 14

    out, err = nimc.ended("--json")
    assert f"resumes {run}" in err
    # `on` has one pair of six: five pairs of three runs follow, after a warm-up.
    assert "stream, block 1: 0 of 16 runs, " in err
    assert "stream, block 1: 16 of 16 runs, " in err
    text = file.read_bytes()
    assert text.startswith(measured + b"\n")
    later = [json.loads(line) for line in text.splitlines()[14:]]
    assert len(later) == 16
    assert {(r["schema"], r["outcome"], r["block"]) for r in later} == {(7, "accepted", 1)}
    document = json.loads(out)
    assert document["integrity_faults"] == []
    counts = {row["arm"]: (row["pairs"], row["rejected"]) for row in document["results"]}
    assert counts == {"on": (1 + 5, 6), "aa": (3 + 5, 0)}

    assert verified_samples(command, run) == 14 + 16
    (listed,) = command.json("runs", "--results", nimc.results)["runs"]
    assert (listed["samples"], listed["rejected"], listed["state"]) == (30, 6, "finished")
    assert reported(nimc, run)["head"] == nimc.header()["head"]


def test_a_finished_run_goes_on_with_more_pairs(nimc, command):
    nimc.write(CAMPAIGN.replace("cap: 6", "cap: 6, precision: 0.001"))
    nimc.ended(fake="faint")
    run = nimc.the_run()
    rewrite_as_schema_6(run)
    assert verified_samples(command, run) == 1 + 6 * 3
    nimc.ended("--pairs", "8", fake="faint")
    assert nimc.the_run() == run
    assert {row["arm"]: row["pairs"] for row in reported(nimc, run)["results"]} == {
        "on": 8,
        "aa": 8,
    }
    assert verified_samples(command, run) == (1 + 6 * 3) + (1 + 2 * 3)
