"""Counters of nodes on the page: medians by treatment, roles, and what nodes lack."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.report.data import load_run
from analysis.report.make import make_reports
from analysis.subjects.causes import causes_view
from analysis.subjects.counters import counters_view
from nimc.records.sample import Sample
from tests.analysis.made_counters import CASES
from tests.analysis.synthetic import remedies, samples, write_run

LAMMPS = CASES[2]
#: Event -> unit, and the value of a run on the first of two nodes.
Values = Mapping[str, tuple[str, Callable[[Sample], float]]]


def is_on(sample: Sample) -> bool:
    return sample.arm.startswith("on")


def stalled(sample: Sample) -> float:
    """A tool changes it too."""
    if "tool=p" in sample.arm:
        return 0.6
    return 0.4 if is_on(sample) else 0.1


MADE: Values = {
    "context-switches": ("count", lambda s: 300.0 if is_on(s) else 100.0),
    "enp225s0f1np1:tx_prio3_pause_duration": ("s", lambda s: 2.5 if is_on(s) else 0.5),
    "frequency": ("Hz", lambda _: 2e9),
    "eth0:rx_dropped": ("count", lambda _: 0.0),
    "eth0:outbound_pci_stalled_wr": ("1", stalled),
    "eth1:outbound_pci_stalled_wr": ("1", lambda _: 0.04),
}


def made(folder: Path, runs: list[Sample], absent: Mapping[str, str] = {}) -> Path:
    """A run whose second node counts what the first does, and a half more."""
    record = json.dumps({"nodes": {name: {"absent_counters": absent} for name in ("n1", "n2")}})
    sha = hashlib.sha256(record.encode()).hexdigest()
    run = write_run(folder / "run", [replace(each, provenance=sha) for each in runs])
    (run / "provenance").mkdir(exist_ok=True)
    (run / "provenance" / f"{sha}.json").write_text(record)
    (run / "counters").mkdir()
    for each in runs:
        with (run / "counters" / f"{each.case}.jsonl").open("a") as file:
            for event, (unit, value) in MADE.items():
                for rank, factor in enumerate((1.0, 1.5)):
                    row = {"key": each.key, "tool": "node", "rank": rank, "event": event}
                    row |= {"value": factor * value(each), "unit": unit, "state": "counted"}
                    file.write(json.dumps({**row, "running_share": None}) + "\n")
    return run


def view(run: Path):
    found = causes_view(load_run(run), "w")
    assert found
    return found


def test_medians_off_and_on_are_sums_over_nodes_but_of_shares_and_frequencies(tmp_path):
    table = view(made(tmp_path, samples(LAMMPS, pairs=6))).nodes["lammps"]
    assert table.treatments == ["off", "on", "aa"]
    rows = {row.event: row.values[:2] for row in table.rows}
    # 100 + 150 and 300 + 450; 0.5 + 0.75 s; the mean of 2 and 3 GHz; of 10 % and 15 %, of 40 % and
    # 60 %, of 4 % and 6 %. One counter stayed 0.
    assert rows == {
        "context-switches": ["250", "750"],
        "enp225s0f1np1:tx_prio3_pause_duration": ["1.250 s", "6.250 s"],
        "frequency": ["2.500 GHz", "2.500 GHz"],
        "eth0:outbound_pci_stalled_wr": ["12.5%", "50.0%"],
        "eth1:outbound_pci_stalled_wr": ["5.0%", "5.0%"],
    }


def test_the_devices_own_counter_is_the_role_of_pcie_stalls(tmp_path):
    changes = view(made(tmp_path, samples(LAMMPS, pairs=8))).changes
    (row,) = (each for each in changes if each.treatment == "on")
    # The device that stalled more, not the sum of both; then the mean over nodes.
    assert (row.tool, row.role, row.pairs, row.worst) == ("node", "PCIe stalls", 8, None)
    assert (row.off, row.on, row.ratio.value) == pytest.approx((0.125, 0.5, 4))


def test_runs_that_a_tool_wraps_are_not_mixed_with_the_others(tmp_path):
    times = {"on": 2.0, "off@tool=p": 1.05, "on@tool=p": 2.1}
    run = made(tmp_path, samples(remedies(times=times), pairs=8))
    found = view(run)
    (row,) = (each for each in found.changes if each.treatment == "on")
    assert (row.off, row.on, row.pairs) == (pytest.approx(0.125), pytest.approx(0.5), 8)
    assert set(found.nodes["melt"].treatments) == {"off", *times}


def test_a_node_is_no_tool_with_a_price_and_a_table_of_its_own(tmp_path):
    run = made(tmp_path, samples(LAMMPS, pairs=6))
    found = view(run)
    assert (found.prices, found.notes, found.messages) == ([], [], [])
    assert counters_view(load_run(run), "lammps") is None


@pytest.mark.parametrize("absent", [{}, {"resctrl": "resctrl mounted"}])
def test_what_nodes_lack_is_named_once(tmp_path, absent):
    run = made(tmp_path, samples(LAMMPS, pairs=6), absent)
    lines = [f"{name}: not on 2 nodes; needs {needs}" for name, needs in absent.items()]
    assert view(run).absent == lines
    (report,) = make_reports([run])
    text = report.page.read_text()
    section = text[text.index('id="r0why"') :].partition("</section>")[0]
    assert "Counters of the nodes, lammps" in section
    assert section.count("resctrl mounted") == len(absent)
