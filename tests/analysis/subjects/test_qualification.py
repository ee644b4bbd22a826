"""Faults that were planted in made runs are named by the claims they break, and no others."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.report.data import load_run
from analysis.subjects.qualification import CLAIMS, Qualification, qualification
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
