"""Tests of the tool perf_stat with captured files of perf 6.1 and with lines of other versions.

The captures are from a virtual machine without hardware counters. The capture `hardware` has nine
events of two ranks of an MPI program. The captures `two_ranks` and `user_level` have the events of
the tool. For `user_level`, a user ran perf with kernel.perf_event_paranoid=2.
"""

from pathlib import Path

import pytest

from reframe_tests.tools.base import ToolError
from reframe_tests.tools.perf_stat import EVENTS, TOOL

CAPTURES = Path(__file__).parents[2] / "captures" / "perf_stat"
SOFTWARE = ("task-clock", "context-switches", "cpu-migrations", "page-faults")
HARDWARE = ("cycles", "instructions", "cache-misses", "L1-dcache-load-misses", "branch-misses")


def rows(folder: Path, ranks: int) -> dict:
    return {(row.rank, row.event): row for row in TOOL.parse(folder, ranks)}


def line(event: str, value: str, running: str = "100.00", unit: str = "", rest: str = "") -> str:
    return (
        f'{{"counter-value" : "{value}", "unit" : "{unit}", "event" : "{event}",'
        f' "event-runtime" : 1000, "pcnt-running" : {running}{rest}}}'
    )


def written(folder: Path, *lines: str) -> Path:
    """Write a rank's file with these lines, and with the count 7 for each event without a line."""
    named = " ".join(lines)
    others = [line(event, "7.000000") for event in EVENTS if event not in named]
    (folder / "rank-0.json").write_text("\n".join(["# started on Sat", "", *lines, *others]) + "\n")
    return folder


def test_the_counts_of_each_rank_are_those_that_perf_printed():
    counts = rows(CAPTURES / "hardware", 2)
    assert len(counts) == 2 * 9
    assert counts[0, "context-switches"].value == 1348
    assert counts[1, "context-switches"].value == 1277
    assert counts[1, "cpu-migrations"].value == 4
    assert counts[0, "cpu-migrations"].value == 0
    assert {counts[0, event].state for event in SOFTWARE} == {"counted"}
    assert counts[0, "page-faults"].unit == "count"
    clock = counts[0, "task-clock"]  # 291.540863 msec in the file
    assert (clock.value, clock.unit, clock.running_share) == (pytest.approx(0.291540863), "s", 1)
    # The virtual machine cannot count these events.
    for event in HARDWARE:
        row = counts[0, event]
        assert (row.state, row.value, row.running_share) == ("not supported", None, None)


def test_events_of_the_kernel_are_not_counted_at_the_user_level():
    # The program slept 50 times, but perf printed 0 context switches. Context switches happen in
    # the kernel only, and the user may not count events of the kernel.
    text = (CAPTURES / "user_level" / "rank-0.json").read_text()
    assert '"0.000000", "unit" : "", "event" : "context-switches:u"' in text
    counts = rows(CAPTURES / "user_level", 1)
    for event in ("context-switches:u", "cpu-migrations:u"):
        assert (counts[0, event].value, counts[0, event].state) == (None, "not counted")
    assert counts[0, "page-faults:u"].value > 0
    assert counts[0, "task-clock:u"].state == "counted"
    assert counts[0, "cycles:u"].state == "not supported"


METRIC = ', "metric-value" : "3.700000", "metric-unit" : "GHz", "metric-threshold" : "bad"'


@pytest.mark.parametrize(
    ("event", "value", "running", "rest", "count", "state", "share"),
    [
        ("cycles", "2000.000000", "61.50", "", 2000, "multiplexed", pytest.approx(0.615)),
        # Old and new versions of perf print different shares with `<not counted>`.
        ("cycles", "<not counted>", "0.00", "", None, "not counted", None),
        ("cycles", "<not counted>", "100.00", "", None, "not counted", None),
        ("cycles", "0.000000", "0.00", "", None, "not counted", None),  # the counter never ran
        ("cycles", "0.000000", "100.00", "", 0, "counted", 1),
        ("cycles", "3112.000000", "100.00", ", ", 3112, "counted", 1),  # perf 6.12, Cortex A57
        ("cycles", "9.0", "100.00", METRIC, 9, "counted", 1),
        ("context-switches:uk", "5.0", "100.00", "", 5, "counted", 1),
        # perf has two notations of the user level, which has no events of the kernel.
        ("context-switches:u", "0.0", "100.00", "", None, "not counted", None),
        ("cpu_atom/context-switches/u", "0.0", "100.00", "", None, "not counted", None),
    ],
)
def test_a_line_gives_count_state_and_share(
    tmp_path, event, value, running, rest, count, state, share
):
    # A hybrid processor has two kinds of cores, and this line is for one kind. The tool must not
    # read the metrics as counts.
    other = line("cpu_core/cycles/", "6326.000000")
    metrics = [
        '{"metric-value" : 237.237504, "metric-unit" : "of all branches"}',
        '{"counter-value" : "12", "unit" : "", "event" : "", "metric-value" : "0.35"}',
        '{"metric-value" : "0.35", "metric-unit" : "x", "metric-threshold" : "good"}',
    ]
    folder = written(tmp_path, line(event, value, running, rest=rest), other, *metrics)
    counts = rows(folder, 1)
    row = counts[0, event]
    assert (row.value, row.state, row.running_share) == (count, state, share)
    assert counts[0, "cpu_core/cycles/"].value == 6326
    assert {named for _, named in counts} <= {event, "cpu_core/cycles/", *EVENTS}


def test_a_unit_that_the_tool_does_not_know_leaves_the_value_as_it_is(tmp_path):
    counted = rows(written(tmp_path, line("cycles", "3.500000", unit="Joules")), 1)[0, "cycles"]
    assert (counted.value, counted.unit) == (3.5, "Joules")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (line("cycles", "many"), "event cycles: not a number"),
        (line("cycles", "12,5"), "event cycles: not a number"),
        ('{"counter-value" : "1.0", "unit" : "", "event" : "cycles"}', "or no pcnt-running"),
        (line("cycles", "1.0", running="100,00"), "incomplete line"),
        ("[1]", "rank-0.json:3: incomplete line"),  # after a comment and an empty line
        (line("cycles", "1.0") + "\n" + line("cycles", "2.0"), "duplicate event cycles"),
    ],
)
def test_an_unreadable_line_is_refused(tmp_path, bad, why):
    with pytest.raises(ToolError, match=why):
        TOOL.parse(written(tmp_path, bad), 1)
