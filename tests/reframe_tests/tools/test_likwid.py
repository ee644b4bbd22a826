"""Tests of the tool LIKWID with made figures in the CSV format of LIKWID 5.2.2.

The file tests/captures/likwid/README.md describes these figures.
"""

from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS

CAPTURES = Path(__file__).parents[2] / "captures" / "likwid"
MEMORY, STALLS = TOOLS["likwid:MEM"], TOOLS["likwid:CYCLE_STALLS"]


def test_events_are_sums_over_channels_and_cpus():
    by_event = {row.event: row for row in MEMORY.parse(CAPTURES / "memory", 8)}
    assert by_event["CAS_COUNT_RD"].value == 100_000_000 + 110_000_000
    assert by_event["INSTR_RETIRED_ANY"].value == 6_500_000_000
    assert {row.rank for row in by_event.values()} == {4}
    # The counts are 210e6 and 90e6 cache lines of 64 B. The tool leaves out rates and ratios.
    assert by_event["Memory read data volume"].value == pytest.approx(210e6 * 64)
    assert by_event["Memory write data volume"].value == pytest.approx(90e6 * 64)
    assert by_event["Memory read data volume"].unit == "B"
    assert not [event for event in by_event if "bandwidth" in event or event in ("CPI", "Runtime")]


def test_an_event_that_likwid_could_not_count_has_no_value():
    by_event = {row.event: row for row in STALLS.parse(CAPTURES / "stalls", 1)}
    missing = by_event["CYCLE_ACTIVITY_STALLS_LDM_PENDING"]
    assert (missing.value, missing.state) == (None, "not counted")
    assert by_event["CYCLE_ACTIVITY_STALLS_L2_PENDING"].value == 900_000_000
