"""Faults that were planted in made runs are named by the claims they break, and no others."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.report.data import UnfinishedBlock, load_run
from analysis.subjects.qualification import (
    CLAIMS,
    Evidence,
    NodeFacts,
    Qualification,
    SiteClaims,
    evidence_of,
    qualification,
)
from nimc.base.groups import grouped
from nimc.records.notes import Note
from nimc.records.sample import Sample, WriterRecord
from tests.analysis.subjects.made_qualification import (
    ALONE_B_S,
    ORIGIN,
    Fault,
    device,
    made_run,
    node,
    rejected,
)
from tests.analysis.synthetic import HOST, rechain

OTHERS = ("perftest", "ucx", "mpi_put", "fabtests")
COUNTS = ["counter of writes", "counter of reads"]
_REFUTED = rejected(f"{HOST} counted 1 MB, but the writers claim 2 MB; allowed difference: 20%")


def judged(run: Path) -> Qualification:
    return qualification(load_run(run, force=True))


def states(of: Qualification) -> dict[str, list[str]]:
    return grouped((each.state, each.name) for each in of.claims if each.name not in OTHERS)


@pytest.mark.parametrize("seed", range(4))
def test_a_clean_run_allows_all_that_it_measured(tmp_path: Path, seed: int) -> None:
    found = judged(made_run(tmp_path / "run", seed=seed))
    assert states(found).get("refused", []) == []
    assert "not shown" not in states(found)
    # Chance may widen an interval.
    assert len(states(found)["allowed"]) >= len(CLAIMS) - len(OTHERS) - 1
    others = {each.name: each.state for each in found.claims if each.name in OTHERS}
    assert others == {**dict.fromkeys(OTHERS, "not shown"), "ucx": "allowed"}
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


def unwritten(_: Sample, writer: WriterRecord) -> WriterRecord:
    return replace(writer, overwritten_share=writer.overwritten_share and 0.0)


PLANTED: dict[str, tuple[Fault, list[str]]] = {
    "unit twice as large": (Fault(counts=lambda _: 2.0, sample=_REFUTED), COUNTS),
    "3 % too few": (Fault(counts=lambda _: 0.97), COUNTS),
    "12 % too many": (Fault(counts=lambda _: 1.12), COUNTS),
    "dead": (Fault(counts=lambda _: 0.0, sample=_REFUTED), [*COUNTS, "foreign writer"]),
    "a quarter, or of another port": (Fault(counts=lambda _: 0.25, sample=_REFUTED), COUNTS),
    "set back in some runs": (Fault(counts=lambda of: 1.005 if of.pair % 3 else None), COUNTS),
    "stops in some runs": (
        Fault(counts=lambda of: 0.5 if of.pair == 2 else 1.005, sample=_REFUTED),
        COUNTS,
    ),
    "claims and does not write": (
        Fault(writer=unwritten, counts=lambda _: 0.0, sample=_REFUTED),
        [*COUNTS, "memory", "foreign writer"],
    ),
    "rate limit does nothing": (Fault(writer=unlimited, sample=_REFUTED), ["throttled"]),
    "device absent": (Fault(origin=node(device(name="mlx5_1"))), ["devices"]),
    "port down": (Fault(target=node(device(state="DOWN"))), ["devices"]),
    "half the link": (Fault(target=node(device(rate_b_s=6.25e9))), ["devices"]),
    "more than the link": (
        Fault(
            site={"nic": {"link_rate_b_s": 6.25e9, "processing": "offload"}},
            target=node(device(rate_b_s=6.25e9)),
            origin=node(device(rate_b_s=6.25e9)),
        ),
        ["full rate"],
    ),
    "NUMA node of another": (Fault(site={"facts": {"nic_node": 1}}), ["NUMA of device"]),
    "NUMA nodes exchanged": (
        Fault(far=1.1, target=node(device(numa_node=None)), origin=node(device(numa_node=None))),
        ["NUMA of device"],
    ),
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
    "drift": (Fault(aa=1.06), ["repeats"]),
    "shared switch": (Fault(spin=1.1), ["control"]),
    "onload": (Fault(s_gb=0.12), ["offload"]),
}


@pytest.mark.parametrize(("fault", "broken"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_named_by_its_claim(
    tmp_path: Path, fault: Fault, broken: list[str]
) -> None:
    found = judged(made_run(tmp_path / "run", fault))
    # Such a record also contradicts itself where no conductor rejected it.
    assert [each for each in states(found)["refused"] if each != "records"] == broken
    assert found.verdict == "not qualified"
    assert all(each.reason and each.remedy for each in found.claims if each.state == "refused")


@pytest.mark.parametrize(
    ("fault", "limited"),
    [
        (Fault(counts=lambda _: 1.05), COUNTS),  # headers, or other traffic
        (Fault(site={"nic": None}), ["devices"]),  # a link of an unknown rate
    ],
)
def test_what_is_shown_in_part_limits_its_claim(
    tmp_path: Path, fault: Fault, limited: list[str]
) -> None:
    found = states(judged(made_run(tmp_path / "run", fault)))
    assert {*limited} <= {*found["caveat"]}
    assert "refused" not in found


# Claims at their limits, from few records by hand. The link has 10 GB/s.

JUDGES = {claim.name: claim.judge for claim in CLAIMS}
SITE = {"device": "mlx5_0", "nic": {"link_rate_b_s": 1e10}, "facts": {"nic_node": 0}}


def evidence(**frames: list[dict[str, Any]]) -> Evidence:
    made = {name: pl.DataFrame(frames.get(name)) for name in ("runs", "writers", "conditions")}
    return Evidence(None, SiteClaims(**SITE), {}, {}, **made)  # type: ignore[arg-type]


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
    ("claim", "writers", "state"),
    [
        ("full rate", [wrote(0.8)], "allowed"),
        ("full rate", [wrote(0.79)], "caveat"),
        ("full rate", [wrote(1.019)], "allowed"),
        ("full rate", [wrote(1.03)], "refused"),
        ("full rate", [wrote(0.1), wrote(0.9), wrote(0.9)], "allowed"),  # the median
        ("full rate", [wrote(0.9, asked_b_s=1e9), wrote(0.9, direction="read")], "not shown"),
        ("throttled", [limited(1.049)], "allowed"),
        ("throttled", [limited(1.049, limited_by="agent")], "caveat"),  # in bursts
        ("throttled", [limited(0.94)], "caveat"),
        ("throttled", [limited(0.84)], "refused"),
        ("throttled", [limited(None, 1.0), limited(None, 1.0)], "allowed"),
        ("throttled", [limited(1.0), limited(0.94, rate="5%")], "caveat"),  # the worst
        ("throttled", [limited(1.0), limited(0.84, direction="read")], "refused"),
        ("throttled", [limited(1.0, asked_b_s=0.0)], "not shown"),
        ("memory", [wrote(overwritten_share=0.91), wrote(overwritten_share=1.0)], "allowed"),
        ("memory", [wrote(overwritten_share=0.89), wrote(overwritten_share=1.0)], "caveat"),
        ("memory", [wrote(overwritten_share=0.09), wrote(overwritten_share=1.0)], "refused"),
    ],
)
def test_what_writers_reach_limits_claims(claim: str, writers: list[Any], state: str) -> None:
    assert JUDGES[claim](evidence(writers=writers))[0] == state


def received(*rates: float, role: str = "floor") -> list[dict[str, Any]]:
    return [{"row": int(role == "effect"), "role": role, "received_b_s": rate} for rate in rates]


@pytest.mark.parametrize(
    ("conditions", "reached", "state"),
    # Writers have 1 GB/s alone, of which 2 % may be foreign.
    [
        (received(0.0, 2e7), 1e9, "allowed"),
        (received(2.1e7, *[0.0] * 9), 1e9, "caveat"),
        (received(2.1e7, *[0.0] * 8), 1e9, "refused"),
        (received(0.0) + received(1e9, role="effect"), 1e9, "allowed"),
        (received(0.0) + received(2e7, role="effect"), 1e9, "refused"),  # not seen
        (received(0.0) + received(2e7, role="effect"), 4e7, "allowed"),  # too slow to be seen
        ([], 1e9, "not shown"),
    ],
)
def test_what_arrives_although_nothing_writes(
    conditions: list[Any], reached: float, state: str
) -> None:
    seen = evidence(conditions=conditions, writers=[wrote(0.1, rate_b_s=reached)])
    if not conditions:
        seen = replace(seen, conditions=pl.DataFrame(schema={"received_b_s": pl.Float64}))
    assert JUDGES["foreign writer"](seen)[0] == state


@pytest.mark.parametrize(
    ("lost", "of", "counted", "state"),
    [
        ([], 10, True, "allowed"),
        ([], 10, False, "caveat"),
        ([("rejected", "writer 12 stopped")], 10, True, "caveat"),
        ([("rejected", "writer 12 stopped"), ("injector_died", None)], 19, True, "refused"),
        ([("rejected", "the node was busy"), ("application_failed", None)], 10, True, "allowed"),
        ([], 0, True, "not shown"),
    ],
)
def test_runs_whose_writers_were_not_held(
    lost: list[Any], of: int, counted: bool, state: str
) -> None:
    outcomes = [*lost, *[("kept", None)] * (of - len(lost))]
    runs = [{"role": "effect", "outcome": each, "reason": why} for each, why in outcomes]
    runs.append({"role": "floor", "outcome": "injector_died", "reason": "writer 1 stopped"})
    seen = evidence(runs=runs, conditions=[{"received_b_s": 1.0 if counted else None}])
    assert JUDGES["held"](seen)[0] == state


@pytest.mark.parametrize(
    ("case", "outcome", "refused", "say_why"),
    [
        ("membench", "injector_never_ready", {"held"}, {"held", "records"}),
        ("membench", "machine_failed", set(), {"records"}),
        ("ucx", "injector_never_ready", {"ucx"}, {"ucx"}),
        ("ucx", "time_limit", set(), {"ucx"}),
    ],
)
def test_a_block_that_ended_before_its_first_run(
    tmp_path: Path, case: str, outcome: str, refused: set[str], say_why: set[str]
) -> None:
    seen = evidence_of(load_run(made_run(tmp_path / "run"), force=True))
    none = {name: getattr(seen, name).clear() for name in ("runs", "writers", "conditions")}
    ended = UnfinishedBlock(case, "0", outcome, "status 1")
    seen = replace(seen, unfinished=[ended], **none)
    found = {claim.name: claim.judge(seen.of(claim.injector)) for claim in CLAIMS}
    assert {name for name, (state, _) in found.items() if state == "refused"} == refused
    assert {name for name, (_, why) in found.items() if "status 1" in why} == say_why


@pytest.mark.parametrize(
    ("claim", "name", "values", "state"),
    [
        ("steal", "steal_share", [0.02] * 10, "allowed"),
        ("steal", "steal_share", [0.021, *[0.0] * 9], "caveat"),
        ("steal", "steal_share", [0.021, *[0.0] * 8], "refused"),
        ("foreign load", "foreign_cpus", [0.25] * 3, "allowed"),
        ("frequency", "frequency_hz", [3e9, 3e9, 2.71e9], "allowed"),
        ("frequency", "frequency_hz", [3e9, 3e9, 2.69e9], "refused"),
        ("frequency", "frequency_hz", [None], "not shown"),
    ],
)
def test_nodes_are_quiet_in_nine_of_ten_runs(
    claim: str, name: str, values: list[float], state: str
) -> None:
    seen = evidence(conditions=[{"node": "a", name: each} for each in values])
    assert JUDGES[claim](seen)[0] == state


@pytest.mark.parametrize(
    ("offsets_s", "state"),
    [([0, 0.1], "allowed"), ([0, -0.11], "caveat"), ([-1, 0.05], "caveat"), ([0, 1.1], "refused"),
     ([5.0], "not shown")],
)  # fmt: skip
def test_clocks_may_differ_by_a_second(offsets_s: list[float], state: str) -> None:
    seen = replace(evidence(), offsets_s=dict(enumerate(offsets_s)))  # type: ignore[arg-type]
    assert JUDGES["clocks"](seen)[0] == state


def count(share: float, of: float = 1.0, seconds: float = 1.0, **changes: object) -> dict[str, Any]:
    """A run of a second in which 1 GB was written, and counted over so many seconds."""
    own = {"key": f"{share}/{of}", "target": "a", "injector": "mpi_put", "bytes_b": 1e9}
    counted = {"counted_b": share * seconds * 1e9, "counted_s": seconds, "observed_share": of}
    rates = ("rate_b_s", "rate_min_b_s", "rate_before_b_s", "rate_alone_b_s")
    return wrote(**(own | counted | {"elapsed_s": 1.0} | dict.fromkeys(rates, 1e9) | changes))


@pytest.mark.parametrize(
    ("writers", "state"),
    [
        ([count(1.0, seconds=2.0)], "allowed"),
        ([count(0.981)], "allowed"),
        ([count(0.979)], "refused"),  # another unit
        ([count(1.019)], "allowed"),
        ([count(1.09)], "caveat"),  # headers
        ([count(1.11)], "refused"),
        # A quarter of a second more, at half or twice the rate: 1 GB was counted within the run.
        ([count(1.2, seconds=1.25, rate_before_b_s=2e9)], "caveat"),
        ([count(1.2, seconds=1.25, rate_before_b_s=None)], "refused"),
        ([count(0.9, seconds=1.25, rate_min_b_s=5e8)], "caveat"),
        ([count(0.9, seconds=1.25)], "refused"),
        # The rows cover 0.9 of the time: up to 1 / 0.9 may have been written.
        ([count(1.11, 0.9)], "caveat"),
        ([count(1.0), count(1.001), count(1.05)], "allowed"),
        ([count(1.0), count(1.001), count(1.06)], "caveat"),  # unlike other runs
        ([count(1.0), count(1.001), count(1.21)], "refused"),
        ([count(1.0), count(1.0, counted_b=None, key="b")], "refused"),  # stopped
        ([count(1.0, injector="fabtests_read")], "not shown"),  # rows made of the counter
        ([count(1.0, limited_by="hardware")], "not shown"),
        ([count(1.0, limited_by="agent")], "allowed"),
        # Two writers of one target share its counter.
        ([count(2.0, key="k"), count(2.0, key="k")], "allowed"),
        ([count(2.0, key="k"), count(2.0, key="k", target="b")], "refused"),
        ([count(1.0, direction="read")], "not shown"),
    ],
)
def test_a_counter_shows_what_was_written(writers: list[Any], state: str) -> None:
    assert JUDGES["counter of writes"](evidence(writers=writers))[0] == state


@pytest.mark.parametrize(
    ("ports", "interfaces", "state"),
    [
        ({"rate_b_s": 1.049e10}, [], "allowed"),
        ({"rate_b_s": 0.94e10}, [], "refused"),
        ({"rate_b_s": 1.06e10}, [], "refused"),
        ({"rate_b_s": None}, [], "caveat"),
        ({"rate_b_s": 1e10, "state": "unknown"}, [], "allowed"),
        ({"rate_b_s": 1e10, "state": "INIT"}, [], "refused"),
        (None, [{"name": "mlx5_0", "rate_b_s": 1e10, "mtu_b": 1500}], "allowed"),
        (None, [{"name": "eth0", "rate_b_s": 1e10, "mtu_b": 1500}], "refused"),
    ],
)
def test_devices_and_links_are_those_of_the_file(
    ports: dict[str, Any] | None, interfaces: list[Any], state: str
) -> None:
    rdma = [] if ports is None else [device(**ports)]
    facts = NodeFacts(rdma=rdma, interfaces=interfaces)
    seen = replace(evidence(), nodes={"a": facts})
    assert JUDGES["devices"](seen)[0] == state
    assert JUDGES["devices"](evidence())[0] == "not shown"


def only_ucx(change: Callable[[Sample, WriterRecord], WriterRecord]) -> Fault:
    return Fault(writer=lambda of, each: change(of, each) if of.case == "ucx" else each)


@pytest.mark.parametrize(
    ("fault", "state", "part"),
    [
        (only_ucx(unlimited), "refused", "throttled"),
        (only_ucx(unwritten), "refused", "memory"),
        (only_ucx(lambda _, each: replace(each, transport="tcp")), "refused", "emulated"),
        (only_ucx(lambda _, each: replace(each, rate_alone_b_s=5e9)), "caveat", "rate"),
    ],
)
def test_another_injector_is_judged_by_its_own_runs(
    tmp_path: Path, fault: Fault, state: str, part: str
) -> None:
    found = judged(made_run(tmp_path / "run", fault))
    (row,) = (each for each in found.claims if each.name == "ucx")
    assert (row.state, part in row.reason) == (state, True), row.reason
    assert {*states(found).get("refused", [])} <= {"records"}
    assert found.emulated == []


def test_an_edited_record_is_named(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    path = run / "samples/memory.jsonl"
    path.write_text(path.read_text().replace('"role": "floor"', '"role": "effect"', 1))
    assert "records" in states(judged(rechain(run)))["refused"]


def test_emulated_writes_allow_no_claim_on_hardware(tmp_path: Path) -> None:
    def soft(_: Sample, writer: WriterRecord) -> WriterRecord:
        return replace(writer, transport="soft-RoCE")

    found = judged(made_run(tmp_path / "run", Fault(writer=soft)))
    hardware = [each.name for each in CLAIMS if each.hardware and each.name not in OTHERS]
    assert [each for each in states(found)["refused"] if each != "records"] == hardware
    assert {each.reason[:9] for each in found.claims if each.name in hardware} == {"emulated;"}
    assert "repeats" not in states(found)["refused"]
    assert found.verdict == "not qualified"


def test_a_soft_device_is_no_hardware_even_if_nothing_was_written(tmp_path: Path) -> None:
    rxe = node(device(transport="soft-RoCE"))
    fault = Fault(target=rxe, origin=rxe, sample=rejected("made"))
    found = judged(made_run(tmp_path / "run", fault))
    assert "devices" in states(found)["refused"]
    assert found.emulated == [Note.SOFT_ROCE()]


def test_rows_of_a_device_counter_show_nothing_of_counters(tmp_path: Path) -> None:
    def of_device(_: Sample, writer: WriterRecord) -> WriterRecord:
        return replace(writer, injector="fabtests")

    found = judged(made_run(tmp_path / "run", Fault(writer=of_device)))
    assert set(COUNTS) <= {*states(found)["not shown"]}


def test_without_devices_in_the_file_and_on_one_numa_node_little_is_shown(tmp_path: Path) -> None:
    one = node(numa_nodes=[{"number": 0}])
    site = {"device": None, "nic": None, "facts": None}
    fault = Fault(site=site, target=one, origin=one, offsets_s={HOST: 0.0})
    found = states(judged(made_run(tmp_path / "run", fault)))
    unknown = {"devices", "full rate", "NUMA of device", "NUMA of cores", "clocks"}
    assert unknown <= {*found["not shown"]}


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
