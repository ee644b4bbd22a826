"""Tests of the groups of perf_stat: the events of each processor, and how the tool reads counts."""

import json
import subprocess
from pathlib import Path

import pytest

from records.machine.host import FAMILIES, processor_family, processor_identity
from records.roles import RoleCount
from reframe_tests.tools import TOOLS, perf_stat
from reframe_tests.tools.base import ToolError, try_out
from tests.reframe_tests.reframe_call import run_tool, script

MEMORY, DRAM, TOPDOWN = (TOOLS[f"perf_stat:{name}"] for name in ("memory", "dram", "topdown"))
#: A script that stands in for perf: it notes its arguments and then runs the application.
PERF = '#!/bin/sh\necho "$*" >> "$NOTE"\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'


@pytest.fixture
def on(tmp_path):
    """A function that runs a tool with `echo ran` on a host with the given processor.

    The function returns the arguments of perf.
    """

    def run(tool, processor: str, **variables: str) -> str:
        script(tmp_path / "bin/perf", PERF)
        script(tmp_path / "bin/awk", f"echo {processor}")
        note = tmp_path / "note"
        note.write_text("")
        kept = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "NOTE": str(note)}
        done = run_tool(tool, tmp_path, "echo", "ran", env=kept | variables)
        assert (done.returncode, done.stdout) == (0, "ran\n")
        return note.read_text()

    return run


@pytest.mark.parametrize(
    ("processor", "stalls"),
    [
        ("GenuineIntel-6-45-7", "cycle_activity.stalls_l2_pending"),
        ("GenuineIntel-6-85-4", "cycle_activity.stalls_l3_miss"),
        ("GenuineIntel-6-85-7", "cycle_activity.stalls_l3_miss"),
        ("GenuineIntel-6-143-8", "memory_activity.stalls_l3_miss"),
        ("ARM-0x41-0xd4f", "stalled-cycles-backend"),
    ],
)
def test_perf_is_asked_for_the_events_of_the_processor(on, processor, stalls):
    command = on(MEMORY, processor)
    assert "-e task-clock,cycles,instructions," in command
    assert f",{stalls}," in command
    assert " -a " not in command


def test_dram_is_counted_system_wide_and_topdown_asks_for_metrics_by_name(on):
    command = on(DRAM, "GenuineIntel-6-106-6")
    assert " -a " in command
    assert "unc_m_cas_count.rd,unc_m_cas_count.wr" in command
    assert "-M tma_memory_bound" in on(TOPDOWN, "GenuineIntel-6-106-6")
    assert "-M backend_bound_memory" in on(TOPDOWN, "AuthenticAMD-25-17-1")


def test_events_for_trento_are_events_of_both_zen_3_and_zen_4(on):
    # Since version 6.1, perf's mapfile.csv has amdzen4 for model 48; before, it had amdzen3. Only
    # amdzen3 has ls_any_fills_from_sys.mem_io_local. Both have the event of this test.
    command = on(MEMORY, "AuthenticAMD-25-48-1")
    assert "-e task-clock,cycles,instructions,l2_cache_req_stat.ic_dc_miss_in_l2 " in command


def test_only_time_is_counted_on_an_unknown_processor(on, tmp_path):
    assert "-e task-clock --" in " ".join(on(MEMORY, "GenuineIntel-6-1-1").split())
    # Variables of the user with the names of the wrapper's variables have no effect.
    command = on(MEMORY, "GenuineIntel-6-1-1", group_events="cycles", metrics="x", scope="-a")
    assert "-e task-clock --" in " ".join(command.split())
    assert " -a " not in command
    (tmp_path / "rank-0.json").write_text(line("task-clock", "2.0", unit="msec"))
    (row,) = MEMORY.parse(tmp_path, 1)
    assert (row.event, row.value) == ("task-clock", 0.002)


def line(event: str, value: str, running: str = "100.00", unit: str = "", **more: str) -> str:
    record = {"counter-value": value, "unit": unit, "event": event, "pcnt-running": running}
    return json.dumps(record | more).replace(f'"{running}"', running) + "\n"


def files(folder: Path, text: str, note: str, rank: int = 0) -> None:
    (folder / f"rank-{rank}.json").write_text(text)
    (folder / f"rank-{rank}.events").write_text(note + "\n")


def test_a_missing_event_or_file_is_named(tmp_path):
    files(tmp_path, line("task-clock", "2.0", unit="msec"), "cycles,instructions ")
    with pytest.raises(ToolError, match=r"rank-0\.json: 1 of 3 events"):
        MEMORY.parse(tmp_path, 1)
    (tmp_path / "rank-0.events").unlink()
    with pytest.raises(ToolError, match=r"rank-0\.events: no such file"):
        MEMORY.parse(tmp_path, 1)
    with pytest.raises(ToolError, match="no file of any node"):
        DRAM.parse(tmp_path / "none", 2)


def test_memory_traffic_is_converted_to_bytes(tmp_path):
    # perf converts some uncore events to MiB, and 3 MiB are 3145728 bytes.
    text = line("task-clock", "9") + line("unc_m_cas_count.rd", "3.00", unit="MiB")
    files(tmp_path, text + line("unc_m_cas_count.wr", "128", unit="Bytes"),
          "unc_m_cas_count.rd,unc_m_cas_count.wr ", rank=4)  # fmt: skip
    by_event = {row.event: (row.rank, row.value, row.unit) for row in DRAM.parse(tmp_path, 8)}
    assert by_event["unc_m_cas_count.rd"] == (4, 3145728, "B")
    assert by_event["unc_m_cas_count.wr"] == (4, 128, "B")


def test_a_metric_is_a_share_and_is_multiplexed_if_its_events_took_turns(tmp_path):
    text = (
        line("task-clock", "9")
        + line("slots", "100", "50.00", **{"metric-value": "3.0", "metric-unit": "%  tma_other"})
        + line("stalls", "7", "50.00",
               **{"metric-value": "42.5", "metric-unit": "%  tma_memory_bound"})
    )  # fmt: skip
    files(tmp_path, text, " tma_memory_bound")
    by_event = {row.event: row for row in TOPDOWN.parse(tmp_path, 1)}
    assert set(by_event) == {"task-clock", "tma_memory_bound"}
    row = by_event["tma_memory_bound"]
    assert row.value == pytest.approx(0.425)
    assert (row.unit, row.state, row.running_share) == ("1", "multiplexed", 0.5)


def test_a_metric_is_counted_if_its_events_ran_all_the_time(tmp_path):
    metric = {"metric-value": "42.5", "metric-unit": "%  tma_memory_bound"}
    files(tmp_path, line("task-clock", "9") + line("stalls", "7", "100.00", **metric),
          " tma_memory_bound")  # fmt: skip
    row = {row.event: row for row in TOPDOWN.parse(tmp_path, 1)}["tma_memory_bound"]
    assert (row.state, row.running_share) == ("counted", 1)


@pytest.mark.parametrize("value", ["nan", None, "many"])
def test_a_metric_without_a_number_has_no_value(tmp_path, value):
    named = {"metric-unit": "%  tma_memory_bound"} | ({"metric-value": value} if value else {})
    files(tmp_path, line("task-clock", "9", **named), " tma_memory_bound")
    row = TOPDOWN.parse(tmp_path, 1)[-1]
    assert (row.event, row.value, row.state) == ("tma_memory_bound", None, "not supported")


def test_a_real_node_is_counted_system_wide(tmp_path, monkeypatch):
    # The test counts context switches instead of uncore events, since no virtual machine has uncore
    # events. The sleeping process is no child of perf, but perf must count it.
    row = RoleCount(
        role="DRAM read",
        tool="perf_stat",
        group="dram",
        families=tuple(FAMILIES),
        events=("context-switches",),
        source="",
    )
    monkeypatch.setattr(perf_stat, "counts", lambda *_: [row])
    if processor_family(processor_identity(Path("/proc/cpuinfo").read_text())) is None:
        pytest.skip("a processor that is not in the table")
    try:
        try_out(DRAM)
    except ToolError as error:
        pytest.skip(str(error))
    go, done = tmp_path / "go", tmp_path / "done"
    waits = "import pathlib, sys, time\ndef wait(path):\n"
    waits += "  while not path.exists(): time.sleep(0.05)\n"
    waits += "go, done = map(pathlib.Path, sys.argv[1:])\n"
    sleeper = waits + "wait(go)\nfor _ in range(200): time.sleep(0.001)\ndone.touch()"
    application = ["python3", "-c", waits + "go.touch(); wait(done)", str(go), str(done)]
    with subprocess.Popen(["python3", "-c", sleeper, str(go), str(done)]) as process:
        try:
            run_tool(DRAM, tmp_path, *application, check=True)
        finally:
            process.kill()
    by_event = {count.event: count for count in DRAM.parse(tmp_path, 1)}
    assert by_event["context-switches"].state == "counted"
    assert by_event["context-switches"].value >= 200
