"""Faults that were planted in made runs are named by the claims they break, and no others."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from analysis.report.data import load_run
from analysis.subjects import qualification as module
from analysis.subjects.qualification import CLAIMS, Evidence, Qualification, qualification
from records.groups import grouped
from records.notes import Note
from records.sample import Sample, WriterRecord
from tests.analysis.subjects.made_qualification import (
    ALONE_B_S,
    ORIGIN,
    Fault,
    made_run,
    rejected,
)
from tests.analysis.synthetic import HOST, rechain

COUNTS = ["counter of writes", "counter of reads"]
_REFUTED = rejected(f"{HOST} counted 1 MB, but the writers claim 2 MB; allowed difference: 20%")


def judged(run: Path) -> Qualification:
    return qualification(load_run(run, force=True))


def states(of: Qualification) -> dict[str, list[str]]:
    """State -> the claims of the machine, those of injectors apart."""
    return grouped((each.state, each.name) for each in of.claims if ":" not in each.name)


@pytest.mark.parametrize("seed", range(4))
def test_a_clean_run_allows_all_that_it_measured(tmp_path: Path, seed: int) -> None:
    found = judged(made_run(tmp_path / "run", seed=seed))
    assert states(found) == {"allowed": [claim.name for claim in CLAIMS]}
    of_ucx = {each.name: each.state for each in found.claims if ":" in each.name}
    assert of_ucx == {f"ucx: {each.name}": "allowed" for each in CLAIMS if each.each}
    assert found.verdict == "qualified"
    assert found.holds_for == {
        "kernel": ["6.1"],
        "BIOS": [],
        "NIC firmware": ["mlx5_0 20.31"],
        "MPI": ["mpirun: mpirun (Open MPI) 4.1.4"],
    }


def condition(**values: float) -> Callable[[Sample], Sample]:
    def change(sample: Sample) -> Sample:
        hit = sample.pair % 3 == 0
        each = sample.conditions[0]
        return replace(sample, conditions=[replace(each, **values) if hit else each])

    return change


def unlimited(sample: Sample, writer: WriterRecord) -> WriterRecord:
    """At full rate, whatever was asked."""
    rates = ("rate_alone_b_s", "rate_before_b_s", "rate_b_s", "rate_min_b_s")
    full = dict.fromkeys(rates, ALONE_B_S) | {"bytes_b": ALONE_B_S * sample.elapsed_s}
    return replace(writer, **full) if writer.asked_b_s else writer


PLANTED: dict[str, tuple[Fault, list[str]]] = {
    "unit twice as large": (Fault(counts=lambda _: 2.0, sample=_REFUTED), COUNTS),
    "20 % too many": (Fault(counts=lambda _: 1.2), COUNTS),
    "dead": (Fault(counts=lambda _: 0.0, sample=_REFUTED), [*COUNTS, "foreign writer"]),
    "a quarter, or of another port": (Fault(counts=lambda _: 0.25, sample=_REFUTED), COUNTS),
    "set back in some runs": (Fault(counts=lambda of: 1.005 if of.pair % 3 else None), COUNTS),
    "stops in some runs": (
        Fault(counts=lambda of: 0.5 if of.pair == 2 else 1.005, sample=_REFUTED),
        COUNTS,
    ),
    "rate limit does nothing": (Fault(writer=unlimited, sample=_REFUTED), ["throttled"]),
    "more than the link": (
        Fault(site={"nic": {"link_rate_b_s": 6.25e9, "processing": "offload"}}),
        ["full rate"],
    ),
    "NUMA nodes exchanged": (Fault(far=1.1), ["NUMA of device"]),
    "memory of cores exchanged": (Fault(far_memory=1.4), ["NUMA of cores"]),
    "clock an hour off": (Fault(offsets_s={HOST: 0.0, ORIGIN: -3600.0}), ["clocks"]),
    "foreign writer": (
        Fault(foreign_b_s=1e9, sample=rejected("although nothing wrote", "floor")),
        ["foreign writer"],
    ),
    "writer stops": (
        Fault(sample=rejected("writer 0 wrote nothing for 1.5 s (rdma:mlx5_0/1)", every=3)),
        ["held"],
    ),
    "busy node": (Fault(sample=condition(foreign_cpus=1.1)), ["foreign load"]),
    "steal": (Fault(sample=condition(steal_share=0.1)), ["steal"]),
    "throttled cores": (Fault(sample=condition(frequency_hz=2e9)), ["frequency"]),
    "drift": (Fault(aa=1.07), ["repeats"]),
}


@pytest.mark.parametrize(("fault", "broken"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_named_by_its_claim(
    tmp_path: Path, fault: Fault, broken: list[str]
) -> None:
    found = judged(made_run(tmp_path / "run", fault))
    assert states(found)["refused"] == broken
    assert found.verdict == "not qualified"
    assert all(each.reason and each.remedy for each in found.claims if each.state == "refused")


def test_headers_limit_what_may_be_claimed_of_counters(tmp_path: Path) -> None:
    found = judged(made_run(tmp_path / "run", Fault(counts=lambda _: 1.05)))
    assert states(found)["caveat"] == COUNTS
    assert found.verdict == "qualified"


# Claims at their limits, from few records by hand. The link has 10 GB/s.

SITE = {"nic": {"link_rate_b_s": 1e10}}


def evidence(offsets_s: dict[str, float] | None = None, **frames: list[dict[str, Any]]) -> Evidence:
    made = {name: pl.DataFrame(frames.get(name)) for name in ("runs", "writers", "conditions")}
    provenance = {"sha": {"clock_offsets_s": offsets_s or {}}}
    run = SimpleNamespace(header=SimpleNamespace(facts={"site": SITE}), provenance=provenance)
    return Evidence(run, **made)  # type: ignore[arg-type]


def state(name: str, seen: Evidence, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(module, "emulated", lambda _: [])
    (claim,) = (each for each in CLAIMS if each.name == name)
    return module._judgement(claim, seen).state


def wrote(share: float | None = None, **changes: object) -> dict[str, Any]:
    """A writer that reaches so much of the link, or of 1 GB/s that was asked."""
    common = {"row": 1, "direction": "write", "rate": "full", "limited_by": None}
    if share is None:
        return common | changes
    return {**common, "asked_b_s": None, "rate_alone_b_s": share * 1e10, **changes}


def limited(before: float | None, alone: float = 5.0, **changes: object) -> dict[str, Any]:
    rates = {"rate_before_b_s": before and before * 1e9, "rate_alone_b_s": alone * 1e9}
    asked = {"asked_b_s": 1e9, "limited_by": "hardware", "rate": "10%"}
    return wrote(**rates, **(asked | changes))


@pytest.mark.parametrize(
    ("claim", "writers", "expected"),
    [
        ("full rate", [wrote(0.81)], "allowed"),
        ("full rate", [wrote(0.79)], "caveat"),
        ("full rate", [wrote(1.019)], "allowed"),
        ("full rate", [wrote(1.03)], "refused"),
        ("full rate", [wrote(0.1), wrote(0.9), wrote(0.9)], "allowed"),  # the median
        ("full rate", [wrote(0.9, asked_b_s=1e9), wrote(0.9, direction="read")], "not shown"),
        ("throttled", [limited(1.049)], "allowed"),
        ("throttled", [limited(0.94)], "caveat"),
        ("throttled", [limited(0.84)], "refused"),
        ("throttled", [limited(None, 1.0), limited(None, 1.0)], "allowed"),
        ("throttled", [limited(1.0), limited(0.94, rate="5%")], "caveat"),  # the worst
        ("throttled", [limited(1.0), limited(0.84, direction="read")], "refused"),
        ("throttled", [limited(1.0, asked_b_s=0.0)], "not shown"),
    ],
)
def test_what_writers_reach_limits_claims(
    claim: str, writers: list[Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert state(claim, evidence(writers=writers), monkeypatch) == expected


def received(*rates: float, role: str = "floor") -> list[dict[str, Any]]:
    return [{"row": int(role == "effect"), "role": role, "received_b_s": rate} for rate in rates]


@pytest.mark.parametrize(
    ("conditions", "reached", "expected"),
    # Writers have 1 GB/s alone, of which 2 % may be foreign.
    [
        (received(0.0, 2e7), 1e9, "allowed"),
        (received(2.1e7, *[0.0] * 9), 1e9, "caveat"),
        (received(2.1e7, *[0.0] * 8), 1e9, "refused"),
        (received(0.0) + received(1e9, role="effect"), 1e9, "allowed"),
        (received(0.0) + received(2e7, role="effect"), 1e9, "refused"),  # not seen
        (received(0.0) + received(2e7, role="effect"), 4e7, "allowed"),  # too slow to be seen
    ],
)
def test_what_arrives_although_nothing_writes(
    conditions: list[Any], reached: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = evidence(conditions=conditions, writers=[wrote(0.1, rate_b_s=reached)])
    assert state("foreign writer", seen, monkeypatch) == expected


@pytest.mark.parametrize(
    ("failed", "of", "expected"),
    [
        ([], 10, "allowed"),
        ([("rejected", "writer 12 stopped")], 10, "caveat"),
        ([("rejected", "writer 12 stopped"), ("injector_died", None)], 19, "refused"),
        ([("rejected", "the node was busy"), ("application_failed", None)], 10, "allowed"),
        ([], 0, "not shown"),
    ],
)
def test_runs_whose_writers_were_not_held(
    failed: list[Any], of: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = [*failed, *[("kept", None)] * (of - len(failed))]
    runs = [{"role": "effect", "outcome": each, "reason": why} for each, why in outcomes]
    runs.append({"role": "floor", "outcome": "injector_died", "reason": "writer 1 stopped"})
    assert state("held", evidence(runs=runs), monkeypatch) == expected


@pytest.mark.parametrize(
    ("claim", "name", "values", "expected"),
    [
        ("steal", "steal_share", [0.02] * 10, "allowed"),
        ("steal", "steal_share", [0.021, *[0.0] * 9], "caveat"),
        ("steal", "steal_share", [0.021, *[0.0] * 8], "refused"),
        ("foreign load", "foreign_cpus", [0.25] * 3, "allowed"),
        ("frequency", "frequency_hz", [3e9, 3e9, 2.71e9], "allowed"),
        ("frequency", "frequency_hz", [3e9, 3e9, 2.69e9], "refused"),
    ],
)
def test_nodes_are_quiet_in_nine_of_ten_runs(
    claim: str, name: str, values: list[float], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = evidence(conditions=[{"node": "a", name: each} for each in values])
    assert state(claim, seen, monkeypatch) == expected


@pytest.mark.parametrize(
    ("offsets_s", "expected"),
    [([0, 0.1], "allowed"), ([0, -0.11], "caveat"), ([-1, 0.05], "caveat"), ([0, 1.1], "refused"),
     ([5.0], "not shown")],
)  # fmt: skip
def test_clocks_may_differ_by_a_second(
    offsets_s: list[float], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = {f"n{at}": each for at, each in enumerate(offsets_s)}
    assert state("clocks", evidence(nodes), monkeypatch) == expected


def count(share: float, of: float = 1.0, seconds: float = 1.0, **changes: object) -> dict[str, Any]:
    """A run of a second in which 1 GB was written, and counted over so many seconds."""
    own = {"row": 1, "target": "a", "injector": "mpi_put", "bytes_b": 1e9, "elapsed_s": 1.0}
    counted = {"counted_b": share * seconds * 1e9, "counted_s": seconds, "observed_share": of}
    return wrote(**(own | counted | changes))


@pytest.mark.parametrize(
    ("writers", "expected"),
    [
        ([count(1.0, seconds=2.0)], "allowed"),
        ([count(0.981)], "allowed"),
        ([count(1.019)], "allowed"),
        ([count(0.979)], "caveat"),
        ([count(1.11)], "caveat"),  # headers
        ([count(1.13)], "refused"),
        # The rows cover 0.9 of the time: 1 / 0.9 was written.
        ([count(1.11, 0.9)], "allowed"),
        # Nine of ten runs, and not all of nine.
        ([count(1.0, row=at) for at in range(10)] + [count(2.0, row=10)], "allowed"),
        ([count(1.0, row=at) for at in range(4)] + [count(2.0, row=10)], "refused"),
        ([count(1.0), count(1.0, counted_b=None, row=2)], "refused"),  # stopped
        ([count(1.0, counted_b=None)], "not shown"),
        ([count(1.0, injector="fabtests_read")], "not shown"),  # rows made of the counter
        ([count(1.0, limited_by="hardware")], "not shown"),
        ([count(1.0, limited_by="agent")], "allowed"),
        # Two writers of one target share its counter.
        ([count(2.0), count(2.0)], "allowed"),
        ([count(2.0), count(2.0, target="b")], "refused"),
        ([count(1.0, direction="read")], "not shown"),
    ],
)
def test_a_counter_shows_what_was_written(
    writers: list[Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert state("counter of writes", evidence(writers=writers), monkeypatch) == expected


def only_ucx(change: Callable[[Sample, WriterRecord], WriterRecord]) -> Fault:
    return Fault(writer=lambda of, each: change(of, each) if of.case == "ucx" else each)


@pytest.mark.parametrize(
    ("fault", "expected", "name", "part"),
    [
        (only_ucx(unlimited), "refused", "throttled", "difference 1;"),
        (
            only_ucx(lambda _, each: replace(each, transport="tcp")),
            *("refused", "full rate", "emulated"),
        ),
        (
            only_ucx(lambda _, each: replace(each, rate_alone_b_s=5e9)),
            *("caveat", "full rate", "missing share 0.6;"),
        ),
    ],
)
def test_another_injector_is_judged_by_its_own_runs(
    tmp_path: Path, fault: Fault, expected: str, name: str, part: str
) -> None:
    found = judged(made_run(tmp_path / "run", fault))
    (row,) = (each for each in found.claims if each.name == f"ucx: {name}")
    assert (row.state, part in row.reason) == (expected, True), row.reason
    assert (found.verdict, found.emulated) == ("qualified", [])


def test_emulated_writes_allow_no_claim_on_hardware(tmp_path: Path) -> None:
    def soft(_: Sample, writer: WriterRecord) -> WriterRecord:
        return replace(writer, transport="soft-RoCE")

    found = judged(made_run(tmp_path / "run", Fault(writer=soft)))
    hardware = [each.name for each in CLAIMS if each.hardware]
    assert states(found)["refused"] == hardware
    assert {each.reason[:9] for each in found.claims if each.name in hardware} == {"emulated;"}
    assert found.emulated == [Note.SOFT_ROCE()]
    assert found.verdict == "not qualified"


def noted(run: Path, **changes: object) -> list[str]:
    """Notes of a run of another campaign, with these changes of its header's facts."""
    record = json.loads((run / "run.json").read_text())
    record["campaign"] = "night"
    record["campaign_text"] = record["campaign_text"].replace("qualify", "night")
    record["facts"] |= changes
    (run / "run.json").write_text(json.dumps(record))
    (row, *_) = load_run(rechain(run), force=True).results
    return [note for note in row.notes if "qualified" in note]


def test_reports_of_hardware_name_a_machine_that_is_not_qualified_or_changed(
    tmp_path: Path,
) -> None:
    assert noted(made_run(tmp_path / "a")) == [Note.NOT_QUALIFIED()]
    holds_for = {"kernel": ["6.1"], "NIC firmware": ["mlx5_0 20.31"], "MPI": []}
    known = {"run": "q", "verdict": "qualified", "holds_for": holds_for}
    changed = [Note.CHANGED(names="MPI")]
    assert noted(made_run(tmp_path / "b"), qualified=known) == changed
    holds_for["MPI"] = ["mpirun: mpirun (Open MPI) 4.1.4"]
    assert noted(made_run(tmp_path / "c"), qualified=known) == []
    holds_for["NIC firmware"] = ["mlx5_0 20.30"]
    assert noted(made_run(tmp_path / "d"), qualified=known) == [Note.CHANGED(names="NIC firmware")]
