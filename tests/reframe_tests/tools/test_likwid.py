"""Tests of the tool LIKWID with made figures in the CSV format of LIKWID 5.2.2.

The file tests/captures/likwid/README.md describes these figures.
"""

from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import ToolError

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
    # There are no rows of tables with sums over processors.
    assert by_event.keys() == {
        "INSTR_RETIRED_ANY",
        "CPU_CLK_UNHALTED_CORE",
        "CAS_COUNT_RD",
        "CAS_COUNT_WR",
        "Memory read data volume",
        "Memory write data volume",
        "Memory data volume",
    }


@pytest.mark.parametrize("printed", ["-", "nan", "-nan"])
def test_an_event_that_likwid_could_not_count_has_no_value(tmp_path, printed):
    text = (CAPTURES / "stalls" / "rank-0.csv").read_text()
    (tmp_path / "rank-0.csv").write_text(text.replace(",-\n", f",{printed}\n"))
    by_event = {row.event: row for row in STALLS.parse(tmp_path, 1)}
    missing = by_event["CYCLE_ACTIVITY_STALLS_LDM_PENDING"]
    assert (missing.value, missing.state) == (None, "not counted")
    assert by_event["CYCLE_ACTIVITY_STALLS_L2_PENDING"].value == 900_000_000


def test_a_row_with_more_fields_than_its_table_is_refused(tmp_path):
    """The rows of two ranks in one file can run into each other."""
    text = (CAPTURES / "stalls" / "rank-0.csv").read_text()
    (tmp_path / "rank-0.csv").write_text(text.replace("FIXC0,4000000000", "FIXC0,4000000000,7"))
    with pytest.raises(ToolError, match=r"rank-0\.csv: not a CSV file of likwid-perfctr"):
        STALLS.parse(tmp_path, 1)
