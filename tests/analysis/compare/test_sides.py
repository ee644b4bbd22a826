import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.compare.sides import (
    Difference,
    Side,
    compare_sides,
    dose_differences,
    other_differences,
    pair_up,
)
from analysis.report.data import RunData, load_run
from nimc.base.errors import InputError
from nimc.records.sample import Sample, TimetableRecord
from tests.analysis.compare.nights import night
from tests.analysis.synthetic import LAMMPS, STREAM, header, samples, write_run

_NODE = {
    "hostname": "n1",
    "cpu_model": "Example 8-Core",
    "kernel": "5.14",
    "governor": "performance",
    "microcode": "0x1",
    "bios": "Vendor 1.0",
    "iommu": "identity",
    "transparent_huge_pages": "always",
    "rdma": [{"name": "mlx5_0", "firmware": "20.31"}],
    "cores": 8,
}


def _changed(folder: Path, count: int = 1, **changes: object) -> RunData:
    """A night of STREAM with `count` writers, each with the changed fields, which may not fit."""
    found: list[Sample] = []
    for sample in samples(STREAM, pairs=7):
        writers = [replace(writer, **changes) for writer in sample.writers]  # type: ignore[arg-type]
        role = sample.role == "effect"
        found.append(replace(sample, writers=writers * count if role else sample.writers))
    return load_run(write_run(folder, found, header(run=folder.name)), force=True)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return _changed(tmp_path_factory.mktemp("usual") / "a")


@pytest.fixture(scope="module")
def on_node(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """A night of STREAM on `_NODE`."""
    return night(tmp_path_factory.mktemp("node") / "a", STREAM, node=_NODE)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        ({"message_b": 1 << 20}, "64 KiB against 1 MiB"),
        ({"transport": "tcp"}, "shared memory against tcp"),
        ({"injector": "perftest"}, "ucx against perftest"),
        ({"direction": "read"}, "write against read"),
        ({"count": 2, "rate_alone_b_s": 4.05e9}, "1 writer against 2 writers"),
        ({"asked_b_s": 2e9}, "full rate against 2.00 GB/s requested"),
        ({"rate_alone_b_s": 8.9e9}, None),  # 9.9 % more
        ({"rate_alone_b_s": 9.0e9}, "8.10 GB/s alone against 9.00 GB/s alone"),  # 11 % more
        (
            {"message_b": 1 << 20, "transport": "tcp"},
            "64 KiB against 1 MiB; shared memory against tcp",
        ),
    ],
)
def test_doses_must_agree(
    usual: RunData, tmp_path: Path, changes: dict[str, object], text: str | None
) -> None:
    new = Side((_changed(tmp_path / "b", **changes),))  # type: ignore[arg-type]
    found = [(each.case, each.arm, each.text) for each in dose_differences(Side((usual,)), new)]
    assert found == ([("stream", "on", text)] if text else [])


def test_a_timetable_of_no_writers_is_another_dose(usual: RunData, tmp_path: Path) -> None:
    found = [
        replace(each, writers=[], timetable=TimetableRecord(0, 1.0, 0.1, 0.1))
        if each.role == "effect"
        else each
        for each in samples(STREAM, pairs=7)
    ]
    none = load_run(write_run(tmp_path / "b", found, header(run="b")), force=True)
    compared = compare_sides([none], [usual])
    (dose,) = compared.doses
    assert dose.text.startswith("0 writers against 1 writer; none against 64 KiB")
    assert {row.verdict for row in compared.rows if row.arm == "on"} == {"dose differs"}


def test_nights_of_one_side_must_have_one_dose_as_well(usual: RunData, tmp_path: Path) -> None:
    old = Side((usual, _changed(tmp_path / "b", message_b=4096)))
    (found,) = dose_differences(old, Side((_changed(tmp_path / "c"),)))
    assert found.text == "64 KiB, 4 KiB against 64 KiB"


def test_requested_rates_are_compared_by_the_nights_median(tmp_path: Path) -> None:
    def side(*rates: float) -> Side:
        return Side(tuple(_changed(tmp_path / f"{rate:g}", asked_b_s=rate) for rate in rates))

    old = side(1.9e9, 2e9, 2.9e9)
    assert dose_differences(old, side(2.1e9)) == []
    assert len(dose_differences(old, Side(old.runs[2:]))) == 1


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, None),
        ({"cpu_model": "Other"}, ("CPU model", "Example 8-Core", "Other")),
        ({"kernel": "6.6"}, ("kernel", "5.14", "6.6")),
        ({"governor": "powersave"}, ("governor", "performance", "powersave")),
        ({"microcode": "0x2"}, ("microcode", "0x1", "0x2")),
        ({"bios": None}, ("BIOS", "Vendor 1.0", "unknown")),
        ({"iommu": "DMA"}, ("IOMMU", "identity", "DMA")),
        ({"transparent_huge_pages": "never"}, ("transparent huge pages", "always", "never")),
        (
            {"rdma": [{"name": "mlx5_0", "firmware": "20.40"}]},
            ("NIC firmware", "mlx5_0 20.31", "mlx5_0 20.40"),
        ),
    ],
)
def test_facts_of_the_nodes_are_compared(
    on_node: RunData, tmp_path: Path, change: dict[str, object], differs: tuple[str, ...] | None
) -> None:
    new = night(tmp_path / "b", STREAM, node={**_NODE, "hostname": "n2", **change}, seed=2)
    compared = compare_sides([on_node], [new])
    assert compared.differing == ([Difference(*differs)] if differs else [])
    assert compared.unknown == ["DDIO", "hardware prefetchers", "resctrl schemata"]
    # The node's name and clocks differ between any two nights; of the NIC, all facts are listed.
    firmware = ["node RDMA mlx5_0 firmware"] if "rdma" in change else []
    assert [each.what for each in compared.others] == firmware


def test_nodes_of_several_nights_are_put_together(on_node: RunData, tmp_path: Path) -> None:
    old = [
        night(tmp_path / f"b{n}", STREAM, node={**_NODE, "kernel": kernel})
        for n, kernel in enumerate(("6.1", "5.14", "6.1"))
    ]
    found = compare_sides(old, [on_node]).differing
    assert found == [Difference("kernel", "5.14 | 6.1", "5.14")]


def test_other_facts_and_cases_of_one_side_are_listed(tmp_path: Path) -> None:
    facts = {"cores": 2, "site_": 1}
    old = night(tmp_path / "a", STREAM, facts=facts, commit="abc")
    new = night(tmp_path / "b", LAMMPS, facts={**facts, "cores": 4, "smt": True})
    compared = compare_sides([old], [new])
    assert compared.rows == []
    assert [(each.what, each.reference, each.this) for each in compared.others] == [
        ("commit", "abc", "unknown"),
        ("stream on", "measured in B/s", "absent"),
        ("cores", "2", "4"),
        ("lammps on", "absent", "measured in s"),
        ("SMT", "absent", "yes"),
    ]


def test_a_side_is_of_one_machine_and_a_run_counts_once(tmp_path: Path) -> None:
    a, b = night(tmp_path / "a", STREAM), night(tmp_path / "b", STREAM, machine="other")
    c, r = night(tmp_path / "c", STREAM, campaign="other"), night(tmp_path / "r", STREAM)
    for wrong, words in (([a, b], "same machine"), ([a, c], "same campaign"), ([a, a], "a copy")):
        with pytest.raises(InputError, match=words):
            pair_up([r], wrong)
    with pytest.raises(InputError, match="a copy is not another night"):
        pair_up([a], [a])
    assert pair_up([a], [b])[1].machine == "other"


def test_the_document_is_json_and_complete(tmp_path: Path) -> None:
    old = [night(tmp_path / f"a{n}", STREAM, seed=n) for n in range(3)]
    compared = compare_sides(old, [night(tmp_path / "b", STREAM, seed=9)])
    document = json.loads(json.dumps(compared.document()))
    names = {"machine": "synthetic machine", "campaign": "synthetic"}
    assert document["reference"] == {**names, "runs": ["a0", "a1", "a2"]}
    assert document["worse"] == 0
    assert len(document["comparisons"]) == 3
    for row in document["comparisons"]:
        assert len(row["reference"]["nights"]) == 3
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
    assert compared.too_few_nights
    assert compared.summary.startswith(compared.too_few_nights)
    assert document["night_correlation"]["at_most"] == 0.95


@pytest.mark.parametrize(("sha256", "differences"), [("0" * 64, 0), ("1" * 64, 1)])
def test_what_every_run_has_of_its_own_is_no_difference(
    on_node: RunData, tmp_path: Path, sha256: str, differences: int
) -> None:
    new = Side((night(tmp_path / "b", STREAM, seed=2, node=_NODE, program_sha256=sha256),))
    found = [each for each in other_differences(Side((on_node,)), new) if each.what != "digest"]
    assert [(each.reference, each.this) for each in found] == [("0" * 64, sha256)] * differences
