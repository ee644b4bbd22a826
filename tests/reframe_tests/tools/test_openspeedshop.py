"""Tests of the tool Open|SpeedShop with captured views, and with scripts for its programs.

Open|SpeedShop printed the views of two ranks of an MPI program on a host without hardware counters.
Rank r of the program computes 1 + r shares of a loop over sines, and then exchanges messages with
its neighbour. Each capture has a command of `openss -batch` and its output; the tool redirects such
an output to a file. Two short scripts stand in for `ossutil` and `openss`.
"""

import re
import sys
from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import ToolError
from reframe_tests.tools.openspeedshop import read_view, view_path, write_views
from tests.reframe_tests.reframe_call import run_tool, script

CAPTURES = Path(__file__).parents[2] / "captures" / "openspeedshop"
COMMAND = re.compile(r"openss>>expview -v linkedobjects -r (\d) -F csv\n")
EVENT_TRIAL = """
This utility lets you add events from the command line interface to see if they work.

Successfully added: perf::PAGE-FAULTS
Failed adding: PAPI_TOT_CYC
because: Event does not exist
Successfully added: perf::TASK-CLOCK

perf::TASK-CLOCK : \t67564604
"""


def folder_with_views(folder: Path, collector: str, trial: str = EVENT_TRIAL) -> Path:
    """Write the views of a capture and the output of a trial of events to the folder of a run."""
    _, *parts = COMMAND.split((CAPTURES / f"{collector}.txt").read_text())
    for rank, text in zip(parts[::2], parts[1::2], strict=True):
        (folder / f"rank-{rank}.csv").write_text(text)
        (folder / f"rank-{rank}.err").write_text("a line of the application\n")
    (folder / "events.txt").write_text(trial)
    return folder


def rows(folder: Path, name: str, ranks: int = 2) -> dict:
    return {(row.rank, row.event): row for row in TOOLS[name].parse(folder, ranks)}


def test_the_values_of_hwcsamp_are_those_of_its_report(tmp_path):
    # The `Report Summary` has 850123568 and 1484294954 ns, and 796 and 795 faults.
    by_rank = rows(folder_with_views(tmp_path, "hwcsamp"), "openspeedshop")
    clocks = [by_rank[rank, "perf::TASK-CLOCK"] for rank in (0, 1)]
    assert [row.value for row in clocks] == pytest.approx([0.850123568, 1.484294954])
    assert {row.unit for row in clocks} == {"s"}
    assert [by_rank[rank, "perf::PAGE-FAULTS"].value for rank in (0, 1)] == [796, 795]
    assert [by_rank[rank, "CPU time"].value for rank in (0, 1)] == pytest.approx([1.22, 1.54])
    # The name of an object may have commas.
    view = tmp_path / "rank-1.csv"
    view.write_text(view.read_text().replace("libm.so.6", "a,b,c"))
    assert read_view(view)["perf::task-clock"] == 1484294954
    # The view must have a column for each accepted event.
    folder_with_views(tmp_path, "hwcsamp", EVENT_TRIAL.replace("perf::PAGE-FAULTS", "PAPI_L3_TCM"))
    with pytest.raises(ToolError, match=r"rank-0\.csv: no column of PAPI_L3_TCM; found: exclusive"):
        rows(tmp_path, "openspeedshop")
    view.write_text(view.read_text().splitlines()[2] + "\n")
    with pytest.raises(ToolError, match=r"rank-1\.csv: no table: Exclusive"):
        read_view(view)
    view.write_text("Warning: Unsupported option, '-v linkedobjects'\n")
    with pytest.raises(ToolError, match="no table: Warning: Unsupported option"):
        read_view(view)


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("Event does not exist", "not supported"),
        # PAPI prints this message for its error PAPI_ECNFLCT.
        (
            "Event exists, but cannot be counted due to counter resource limitations",
            "not counted",
        ),
    ],
)
def test_a_refused_event_has_no_value(tmp_path, reason, state):
    trial = EVENT_TRIAL.replace("Event does not exist", reason)
    folder = folder_with_views(tmp_path, "hwcsamp", trial)
    row = rows(folder, "openspeedshop")[1, "PAPI_TOT_CYC"]
    assert (row.value, row.state) == (None, state)


@pytest.mark.parametrize("lost", ["", "0", "796"])
def test_a_build_that_loses_the_events_after_the_first_is_refused(tmp_path, lost):
    # The collector of the last commit does this: it accepts the last event, and then has no count,
    # the count 0 or the count of another event.
    path = folder_with_views(tmp_path, "hwcsamp") / "rank-1.csv"
    path.write_text(re.sub(r"^([\d.]+,[\d.]+),\d+,", rf"\1,{lost},", path.read_text(), flags=re.M))
    fault = r"rank-1\.csv: perf::TASK-CLOCK, the last event, has 0\.000 s of 1\.540 s"
    with pytest.raises(ToolError, match=fault):
        rows(tmp_path, "openspeedshop")


VIEW = "Exclusive CPU time in seconds.,perf::TASK-CLOCK,LinkedObject\n{},{},app\n"


@pytest.mark.parametrize(
    ("sampled_s", "clock_ns", "lost"),
    [(1.0, 99_000_000, True), (1.0, 101_000_000, False), (0, 0, True), (0, 5_000_000, False)],
)
def test_a_clock_below_a_tenth_of_the_sampled_time_is_lost(tmp_path, sampled_s, clock_ns, lost):
    trial = EVENT_TRIAL.replace("Successfully added: perf::PAGE-FAULTS\n", "")
    folder_with_views(tmp_path, "hwcsamp", trial)
    (tmp_path / "rank-1.csv").write_text(VIEW.format(sampled_s, clock_ns))
    if lost:
        with pytest.raises(ToolError, match=r"rank-1\.csv: perf::TASK-CLOCK, the last event, has"):
            rows(tmp_path, "openspeedshop")
    else:
        clock = rows(tmp_path, "openspeedshop")[1, "perf::TASK-CLOCK"]
        assert clock.value == pytest.approx(clock_ns * 1e-9)


def test_of_two_countable_events_hwc_counts_the_first(tmp_path):
    trial = "Successfully added: PAPI_TOT_CYC\nSuccessfully added: perf::TASK-CLOCK\n"
    folder_with_views(tmp_path, "hwc", trial)
    for rank in (0, 1):
        view = f"Exclusive PAPI_TOT_CYC Counts,LinkedObject\n30,a\n1{rank},b\n"
        (tmp_path / f"rank-{rank}.csv").write_text(view)
    values = {key: row.value for key, row in rows(tmp_path, "openspeedshop:hwc").items()}
    assert values == {(0, "PAPI_TOT_CYC"): 40, (1, "PAPI_TOT_CYC"): 41}


@pytest.mark.parametrize(
    ("collector", "event", "seconds"),
    [
        # Each overflow stands for 10 ms of the task clock. The sums over objects are from awk.
        ("hwc", "perf::TASK-CLOCK", [0.80, 0.98]),
        ("pcsamp", "CPU time", [1.6, 1.24]),
    ],
)
def test_overflows_and_samples_are_converted_to_seconds(tmp_path, collector, event, seconds):
    trial = EVENT_TRIAL.replace("Successfully added: perf::PAGE-FAULTS\n", "")
    by_rank = rows(folder_with_views(tmp_path, collector, trial), f"openspeedshop:{collector}")
    assert [by_rank[rank, event].value for rank in (0, 1)] == pytest.approx(seconds)
    assert {row.unit for row in by_rank.values()} == {"s"}


@pytest.mark.parametrize(
    "line",
    [
        "hwcsamp: PAPI event PAPI_TOT_CYC cannot be counted: Event does not exist",
        "OpenSS_PAPIerror:OpenSS_Start, -1 in 18446744073709551602: Invalid argument",
        "PAPI_overflow() for event 0x40000000 FAILED!",
        "CBTF_PAPIerror:CBTF_Create_Eventset PAPI_event_name_to_code, -7 in 1: no such event",
    ],
)
def test_a_refusal_of_the_collector_during_the_run_is_an_error(tmp_path, line):
    (folder_with_views(tmp_path, "hwcsamp") / "rank-1.err").write_text(f"sum 7\n{line}\nsum 8\n")
    with pytest.raises(ToolError) as raised:
        rows(tmp_path, "openspeedshop")
    assert str(raised.value) == f"{tmp_path}/rank-1.err: {line}"


@pytest.mark.parametrize(
    ("file", "kept", "fault"),
    [
        ("rank-0.csv", -40, r"rank-0\.csv: not a row of 6 columns"),
        ("rank-1.err", None, r"rank-1\.err: no such file; 1 of 2"),
        ("events.txt", None, r"events\.txt: no such file"),
        ("rank-0.csv", None, "raw: no data"),
    ],
)
def test_a_truncated_or_missing_file_is_named(tmp_path, file, kept, fault):
    path = folder_with_views(tmp_path, "hwcsamp") / file
    text = path.read_text()
    path.unlink()
    if kept:
        path.write_text(text[:kept])
    with pytest.raises(ToolError, match=fault):
        rows(tmp_path, "openspeedshop")


#: A script that stands in for ossutil: it makes a database, or fails if the file `fails` exists.
OSSUTIL = "#!/bin/sh\n[ ! -e ../fails ] || { echo 'Unable to open'; exit 0; }\n: > X.0.openss\n"
#: A program that stands in for openss: it writes the output of each command to a file. It loses the
#: views of its second call, as openss may do.
OPENSS = f"""#!{sys.executable}
import pathlib, sys
commands = sys.stdin.read().splitlines()
assert sys.argv[1:] == ["-batch"] and commands[0] == "exprestore -f copy.openss"
calls = pathlib.Path("calls")
number = int(calls.read_text()) if calls.exists() else 0
calls.write_text(str(number + 1))
print("The restored experiment identifier is: -x 1")
for command in commands[1:-1]:
    asked, path = command.split(" > ")
    text = pathlib.Path("..", asked.split()[0]).read_text()
    if "expview" in asked and number == 1:
        text = "No valid experiment was specified."
    if "expview" in asked and "-p 11" in asked:
        text = text.replace("app", "app of 11")
    pathlib.Path(path).write_text(text)
"""
STATUS = """Experiment definition
  Currently Specified Components:
    -h node-1 -p 11 -t 140 -r 1 (app)
    -h node-1 -p 12 -t 141 -r 0 (app)
    -h node-1 -p 13 -t 142
"""
TABLE = "Exclusive CPU time in seconds.,% of CPU Time,LinkedObject\n0.5,100.0,app\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    script(tmp_path / "bin/ossutil", OSSUTIL)
    script(tmp_path / "bin/openss", OPENSS)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "expstatus").write_text(STATUS)
    (tmp_path / "expview").write_text(TABLE)
    (tmp_path / "run" / "raw" / "openss-rawdata-node-1-11").mkdir(parents=True)
    return tmp_path / "run"


def test_each_rank_has_the_view_of_its_process(folder):
    write_views(folder, 2, "hwcsamp", {})
    names = [view_path(folder, rank).read_text().split(",")[-1] for rank in (0, 1)]
    assert [name.strip() for name in names] == ["app", "app of 11"]
    # openss was called three times: for the status, for the views, which it lost, and for the views
    # again.
    assert (folder / "calls").read_text() == "3"
    # openss has read a copy of the database, which was removed afterwards.
    assert (folder / "X.0.openss").is_file()
    assert not (folder / "copy.openss").exists()


#: A script that stands in for osscollect: it makes the database that its options and variables
#: name, as openss/osscollect.cxx does.
OSSCOLLECT = """#!/bin/sh
echo "$@ $CBTF_HWCSAMP_RATE $CBTF_HWCSAMP_EVENTS $OPENSS_DEFER_VIEW" > called
[ -d "$OPENSS_RAWDATA_DIR" ] && : > "$OPENSS_DB_DIR/true-$3-0.openss"
"""


def test_a_build_for_cbtf_gathers_its_data_with_osscollect(folder):
    script(folder.parent / "bin/osscollect", OSSCOLLECT)
    (folder.parent / "bin/ossutil").unlink()
    (folder / "settings").write_text("export CBTF_HWCSAMP_EVENTS='PAPI_TOT_CYC,PAPI_L1_TCM'\n")
    write_views(folder, 2, "hwcsamp", TOOLS["openspeedshop"].environment())
    assert (folder / "called").read_text().strip() == (
        "--offline --collector hwcsamp --cbtfrunpath /bin/true --program /bin/true"
        " 100 PAPI_TOT_CYC,PAPI_L1_TCM 1"
    )
    assert "app of 11" in view_path(folder, 1).read_text()
    assert not (folder / "X.0.openss").exists()


def test_the_task_clock_is_counted_with_five_of_six_presets(folder):
    tries = 'for event; do echo "Successfully added: $event"; done'
    for name, body in (("papi_command_line", tries), ("ossrun", ":")):
        script(folder.parent / "bin" / name, body)
    tool = TOOLS["openspeedshop:figure4"]
    run_tool(tool, folder, "true")
    taken = "PAPI_STL_ICY,PAPI_L1_TCM,PAPI_L2_TCM,PAPI_L3_TCM,PAPI_L2_TCH,perf::TASK-CLOCK"
    (line,) = (folder / "settings").read_text().splitlines()
    assert line == f"export OPENSS_HWCSAMP_EVENTS='{taken}' CBTF_HWCSAMP_EVENTS='{taken}'"
    columns = [*taken.split(","), "LinkedObject"]
    table = f"Exclusive CPU time in seconds.,{','.join(columns)}\n0.5,1,2,3,4,5,500000000,app\n"
    (folder / "rank-0.csv").write_text(table)
    by_event = {row.event: (row.value, row.state) for row in tool.parse(folder, 1)}
    assert [by_event[name][0] for name in taken.split(",")] == [1, 2, 3, 4, 5, 0.5]
    assert by_event["PAPI_L3_TCH"] == (None, "not counted")


def test_the_message_names_what_openss_cannot_give(folder, monkeypatch):
    message = "No performance measurements were made for app"
    (folder.parent / "expview").write_text(message)
    with pytest.raises(ToolError, match=rf"rank-0\.csv: {message}$"):
        write_views(folder, 2, "hwcsamp", {})
    with pytest.raises(ToolError, match="no data of rank 2; found 2 of 3"):
        write_views(folder, 3, "hwcsamp", {})
    view_path(folder, 0).unlink()
    (folder / "X.0.openss").unlink()
    (folder.parent / "fails").touch()
    with pytest.raises(ToolError, match=r"X\.0\.openss: not made by ossutil: Unable to open"):
        write_views(folder, 2, "hwcsamp", {})
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="ossutil does not run"):
        write_views(folder, 2, "hwcsamp", {})


def test_a_program_without_mpi_has_one_rank(folder):
    (folder.parent / "expstatus").write_text(STATUS.replace(" -r 1", "").replace(" -r 0", ""))
    # The view without a process would be the same for each of two ranks.
    with pytest.raises(ToolError, match="no data of rank 0; found 0 of 2"):
        write_views(folder, 2, "hwcsamp", {})
    write_views(folder, 1, "hwcsamp", {})
    assert "-p" not in (folder / "commands.txt").read_text()
