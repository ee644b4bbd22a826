"""What perf 6.1 left on a virtual machine without hardware counters, and what other versions print.

Captures: `hardware` (two ranks of an MPI program, nine events), `two_ranks` and `user_level` (the
events of the tool; the latter as a user under kernel.perf_event_paranoid=2).
"""

import json
import shutil
from pathlib import Path

import pytest

from reframe_tests.tools import perf_stat
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
    """A rank's file with these lines, and a count of 7 for each event that they do not name."""
    named = " ".join(lines)
    others = [line(event, "7.000000") for event in EVENTS if event not in named]
    (folder / "rank-0.json").write_text("\n".join(["# started on Sat", "", *lines, *others]) + "\n")
    return folder


def test_counts_of_each_rank_are_those_that_perf_printed():
    found = rows(CAPTURES / "hardware", 2)
    assert len(found) == 2 * 9
    assert found[0, "context-switches"].value == 1348
    assert found[1, "context-switches"].value == 1277
    assert found[1, "cpu-migrations"].value == 4
    assert found[0, "cpu-migrations"].value == 0
    assert {found[0, event].state for event in SOFTWARE} == {"counted"}
    assert found[0, "page-faults"].unit == "count"


def test_time_is_in_seconds():
    # The file says 291.540863 msec.
    clock = rows(CAPTURES / "hardware", 2)[0, "task-clock"]
    assert clock.value == pytest.approx(0.291540863)
    assert clock.unit == "s"
    assert clock.running_share == 1


def test_an_event_that_the_machine_lacks_has_no_value():
    found = rows(CAPTURES / "hardware", 2)
    for event in HARDWARE:
        assert found[0, event].state == "not supported"
        assert found[0, event].value is None
        assert found[0, event].running_share is None


def test_a_user_who_may_not_see_the_kernel_has_no_count_of_what_happens_there():
    # The program slept 50 times and perf printed 0 context switches: the user level has none.
    text = (CAPTURES / "user_level" / "rank-0.json").read_text()
    assert '"0.000000", "unit" : "", "event" : "context-switches:u"' in text
    found = rows(CAPTURES / "user_level", 1)
    for event in ("context-switches:u", "cpu-migrations:u"):
        assert (found[0, event].value, found[0, event].state) == (None, "not counted")
    assert found[0, "page-faults:u"].value > 0
    assert found[0, "task-clock:u"].state == "counted"
    assert found[0, "cycles:u"].state == "not supported"


def test_a_count_that_perf_scaled_up_says_so(tmp_path):
    folder = written(tmp_path, line("cycles", "2000.000000", running="61.50"))
    row = rows(folder, 1)[0, "cycles"]
    assert (row.value, row.state) == (2000, "multiplexed")
    assert row.running_share == pytest.approx(0.615)


@pytest.mark.parametrize("running", ["0.00", "100.00"])
def test_what_was_not_counted_is_distinguished_from_what_is_not_supported(tmp_path, running):
    # perf prints either share beside it, by version.
    row = rows(written(tmp_path, line("cycles", "<not counted>", running)), 1)[0, "cycles"]
    assert (row.value, row.state, row.running_share) == (None, "not counted", None)


def test_an_event_that_never_ran_was_not_counted(tmp_path):
    row = rows(written(tmp_path, line("cycles", "0.000000", "0.00")), 1)[0, "cycles"]
    assert (row.value, row.state) == (None, "not counted")


def test_a_count_of_zero_is_a_count(tmp_path):
    row = rows(written(tmp_path, line("cycles", "0.000000")), 1)[0, "cycles"]
    assert (row.value, row.state) == (0, "counted")


def test_kernel_level_counts_of_kernel_events_stand(tmp_path):
    row = rows(written(tmp_path, line("context-switches:uk", "5.0")), 1)[0, "context-switches:uk"]
    assert row.value == 5


@pytest.mark.parametrize("name", ["cpu_atom/context-switches/u", "context-switches:u"])
def test_both_notations_of_the_user_level_are_known(tmp_path, name):
    assert rows(written(tmp_path, line(name, "0.0")), 1)[0, name].state == "not counted"


def test_the_two_kinds_of_cores_of_a_hybrid_processor_are_two_events(tmp_path):
    folder = written(
        tmp_path,
        line("cpu_core/cycles/", "6326.000000"),
        line("cpu_atom/cycles/", "<not counted>", "0.00"),
    )
    found = rows(folder, 1)
    assert found[0, "cpu_core/cycles/"].value == 6326
    assert found[0, "cpu_atom/cycles/"].state == "not counted"


@pytest.mark.parametrize(
    "metric",
    [
        '{"metric-value" : 237.237504, "metric-unit" : "of all branches"}',
        '{"counter-value" : "12", "unit" : "", "event" : "", "metric-value" : "0.35"}',
        '{"metric-value" : "0.35", "metric-unit" : "x", "metric-threshold" : "good"}',
    ],
)
def test_a_metric_is_no_count(tmp_path, metric):
    assert set(rows(written(tmp_path, metric), 1)) == {(0, event) for event in EVENTS}


def test_a_comma_behind_the_last_field_is_read(tmp_path):
    # perf 6.12 on a Cortex A57.
    found = rows(written(tmp_path, line("cycles", "3112.000000", rest=", ")), 1)
    assert found[0, "cycles"].value == 3112


def test_metrics_as_text_are_no_matter(tmp_path):
    rest = ', "metric-value" : "3.700000", "metric-unit" : "GHz", "metric-threshold" : "bad"'
    assert rows(written(tmp_path, line("cycles", "9.0", rest=rest)), 1)[0, "cycles"].value == 9


def test_a_missing_rank_is_named(tmp_path):
    shutil.copy(CAPTURES / "hardware" / "rank-0.json", tmp_path)
    with pytest.raises(ToolError, match=r"rank-1\.json: no such file; 1 of 2 ranks"):
        TOOL.parse(tmp_path, 2)


def test_a_rank_too_many_is_named(tmp_path):
    shutil.copytree(CAPTURES / "hardware", tmp_path / "run")
    with pytest.raises(ToolError, match=r"rank-1\.json: unexpected file; the application has 1"):
        TOOL.parse(tmp_path / "run", 1)


def test_ranks_are_in_the_order_of_numbers(tmp_path):
    text = (CAPTURES / "hardware" / "rank-0.json").read_text()
    for rank in range(11):
        changed = text.replace("1348.000000", f"{rank}.000000")
        (tmp_path / f"rank-{rank}.json").write_text(changed)
    found = rows(tmp_path, 11)
    assert [found[rank, "context-switches"].value for rank in range(11)] == list(range(11))


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.98])
def test_a_file_that_is_cut_off_is_named(tmp_path, keep):
    text = (CAPTURES / "two_ranks" / "rank-1.json").read_text()
    (tmp_path / "rank-0.json").write_text(text[: int(len(text) * keep)])
    with pytest.raises(ToolError, match=r"rank-0\.json"):
        TOOL.parse(tmp_path, 1)


def test_a_file_cut_off_between_two_lines_is_named(tmp_path):
    lines = (CAPTURES / "two_ranks" / "rank-1.json").read_text().splitlines(keepends=True)
    (tmp_path / "rank-0.json").write_text("".join(lines[:-1]))
    with pytest.raises(ToolError, match=r"rank-0\.json: 7 of 8 events"):
        TOOL.parse(tmp_path, 1)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (line("cycles", "many"), "event cycles: not a number"),
        (line("cycles", "12,5"), "event cycles: not a number"),
        ('{"counter-value" : "1.0", "unit" : "", "event" : "cycles"}', "or no pcnt-running"),
        (line("cycles", "1.0", running="100,00"), "incomplete line"),
        ("[1]", "incomplete line"),
        (line("cycles", "1.0") + "\n" + line("cycles", "2.0"), "duplicate event cycles"),
    ],
)
def test_what_cannot_be_read_is_no_count(tmp_path, bad, why):
    with pytest.raises(ToolError, match=why):
        TOOL.parse(written(tmp_path, bad), 1)


def fake_perf(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "perf"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_host_without_perf_says_which_package_has_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert TOOL.missing() == "perf is not installed (Debian: linux-perf, RHEL: perf)"


def test_a_kernel_that_forbids_it_names_the_sysctl(monkeypatch, tmp_path):
    fake_perf(tmp_path, monkeypatch, "echo Error: >&2; exit 255")
    paranoid = tmp_path / "paranoid"
    paranoid.write_text("4\n")
    monkeypatch.setattr(perf_stat, "_PARANOID", paranoid)
    why = TOOL.missing()
    assert "kernel.perf_event_paranoid is 4" in why
    assert why.endswith("sysctl kernel.perf_event_paranoid=2")


def test_any_other_failure_is_reported_in_perfs_words(monkeypatch, tmp_path):
    fake_perf(tmp_path, monkeypatch, "echo; echo perf not found for kernel 6.9 >&2; exit 2")
    paranoid = tmp_path / "paranoid"
    paranoid.write_text("2\n")
    monkeypatch.setattr(perf_stat, "_PARANOID", paranoid)
    assert TOOL.missing() == "perf stat fails with exit status 2: perf not found for kernel 6.9"


def test_a_perf_without_json_is_too_old(monkeypatch, tmp_path):
    fake_perf(tmp_path, monkeypatch, 'echo "Error: unknown switch" >&2; exit 129')
    assert "no JSON output" in TOOL.missing()


def test_a_perf_that_works_is_there(monkeypatch, tmp_path):
    fake_perf(tmp_path, monkeypatch, "exit 0")
    assert TOOL.missing() is None


def test_captures_are_what_perf_wrote():
    # Guards the figures above against a capture that somebody edits.
    text = (CAPTURES / "hardware" / "rank-0.json").read_text().splitlines()
    first = json.loads(next(line for line in text if line.startswith("{")))
    assert first["counter-value"] == "291.540863"
