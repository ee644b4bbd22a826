"""Tests the sections on counts and on missing counts, with made counts of known true values."""

import json
from pathlib import Path

import pytest

from analysis.subjects.correlations import CASE_CORRELATIONS, RUN_CORRELATIONS
from analysis.subjects.counters import COUNTERS, NOT_COUNTED
from analysis.subjects.role_changes import CHANGES
from analysis.subjects.tool_prices import PRICES
from tests.analysis.made_counters import write_rows
from tests.analysis.subjects.made_causes import change_of, made_run, rows, with_nodes
from tests.analysis.synthetic import LAMMPS as PLAIN
from tests.analysis.synthetic import samples


def test_missing_counts_are_named_with_the_reason_and_not_used(tmp_path):
    run = made_run(tmp_path, processor="GenuineIntel-6-85-7")
    file = run / "counters" / "lammps.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if line["event"] == "cycles":
            line |= {"value": None, "state": "not supported", "running_share": None}
        if line["event"] == "l1d.replacement" and line["rank"] == 1:
            line |= {"state": "multiplexed", "running_share": 0.5}
    write_rows(run, "lammps", lines)
    absent = {row["what"]: (row["where"], row["reason"]) for row in rows(run, NOT_COUNTED)}
    assert absent["cycles"] == ("some or all runs", "not supported")
    assert absent["L1 misses"][1].startswith("the events took turns")
    assert absent["DDIO misses"] == ("Cascade Lake", "perf_stat counts none there")
    for question in (CHANGES, CASE_CORRELATIONS, RUN_CORRELATIONS):
        measured = (row for row in rows(run, question) if row.get("source") != "published")
        assert not {"L1 misses", "cycles"} & {row["role"] for row in measured}


def test_a_processor_of_no_known_family_lacks_all(tmp_path):
    (row,) = rows(made_run(tmp_path, processor="GenuineIntel-6-1-1"), NOT_COUNTED)
    assert (row["what"], row["where"]) == ("all roles", "processor GenuineIntel family 6, model 1")


def test_no_tool_counts_on_origins(tmp_path):
    """So no counts of their processors are reported as missing."""
    run = made_run(tmp_path, processor="GenuineIntel-6-85-7", origin_processor="made-1-1")
    assert {row["where"] for row in rows(run, NOT_COUNTED)} == {"Cascade Lake"}


def counted(run: Path) -> dict[tuple[str, str], list[float]]:
    """Return tool and event -> values of the treatments off and on."""
    table = rows(run, COUNTERS)
    values = {(row["tool"], row["event"], row["arm"]): row["value"] for row in table}
    return {
        (tool, event): [values[tool, event, arm] for arm in ("off", "on")]
        for tool, event, _ in values
    }


def test_counts_are_summed_over_nodes_but_shares_and_frequencies_are_averaged(tmp_path):
    run = with_nodes(tmp_path, samples(PLAIN, pairs=8))
    # Sums are 100 + 150 and 300 + 450, and 0.5 s + 0.75 s. Means are those of 2 and 3 GHz, of 10 %
    # and 15 %, of 40 % and 60 %, and of 4 % and 6 %. One counter remained 0 and is left out.
    assert counted(run) == {
        ("node", "context-switches"): [250, 750],
        ("node", "enp225s0f1np1:tx_prio3_pause_duration"): pytest.approx([1.25, 6.25]),
        ("node", "frequency"): [2.5e9, 2.5e9],
        ("node", "eth0:outbound_pci_stalled_wr"): pytest.approx([0.125, 0.5]),
        ("node", "eth1:outbound_pci_stalled_wr"): pytest.approx([0.05, 0.05]),
    }
    # The role of PCIe stalls is the counter of the device that stalled more, not a sum over
    # devices. It is averaged over nodes.
    row = change_of(run, "PCIe stalls")
    assert (row["tool"], row["n"]) == ("node", 8)
    assert (row["off"], row["on"], row["ratio"]) == pytest.approx((0.125, 0.5, 4))


def test_counters_of_nodes_are_no_tool_and_missing_ones_are_named_once(tmp_path):
    absent = {"resctrl": "resctrl mounted"}
    run = with_nodes(tmp_path, samples(PLAIN, pairs=6), absent)
    assert rows(run, PRICES) == []
    (row,) = rows(run, NOT_COUNTED)
    missing = {"what": "resctrl", "where": "2 nodes", "reason": "needs resctrl mounted"}
    assert row == {**row, **missing}
