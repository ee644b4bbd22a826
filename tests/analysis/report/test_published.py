from __future__ import annotations

import pytest

from analysis.subjects.published import NAMES, normalised, triad


def test_table_two_has_a_line_a_machine_and_memory_clock() -> None:
    lines = {line.machine: line for line in triad()}
    assert len(lines) == 11
    piledriver = lines["Piledriver-1866"]
    assert (piledriver.off, piledriver.on, piledriver.table) == (12.7, 5.6, "Table II")
    assert piledriver.slowdown == pytest.approx(12.7 / 5.6)


def test_the_printed_change_is_that_of_the_printed_rates() -> None:
    for line in triad():
        assert line.change_percent == round(100 * (line.on - line.off) / line.off)


def test_the_network_cards_are_those_of_table_one() -> None:
    onload = [line.machine for line in triad() if line.nic == "onload"]
    assert onload == ["Piledriver-1600", "Piledriver-1866", "Sandy Bridge-X2-onload"]
    assert {line.nic for line in triad()} == {"onload", "offload"}


def test_figure_three_is_of_seven_workloads_on_one_machine() -> None:
    lines = normalised()
    assert list(lines) == list(NAMES)
    assert " ".join(NAMES.values()) == "STREAM CNS HPCCG LAMMPS LULESH SNAP XSBench"
    assert {line.machine for line in lines.values()} == {"Sandy Bridge-X2-onload"}
    # Rates of Table II off/on, times of Table III on/off: 73.4/36.1, 8.89/8.75, 6.07/4.08, ...
    slowdowns = [f"{line.slowdown:.3f}" for line in lines.values()]
    assert slowdowns == ["2.033", "1.016", "1.488", "2.099", "1.911", "1.883", "2.008"]
    assert (lines["lammps"].off, lines["lammps"].on) == (177.21, 372.04)
