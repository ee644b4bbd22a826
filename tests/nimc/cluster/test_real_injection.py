"""`nimc inject` with real writers on this host, and the ways in which it may end."""

import json
import os
import pty
import signal
import subprocess
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conductor.injectors import INJECTORS
from nimc.crate.schemas import schema_of
from nimc.run import session
from records.checkout import ROOT, python_main
from tests.live_processes import live_processes
from tests.waiting import wait_until

WHY_MISSING = INJECTORS["mpi_put"].why_missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(WHY_MISSING is not None, reason=str(WHY_MISSING)),
]


#: Variable in the environment of `nimc` and of all processes that it starts. Its value is the
#: test's folder.
FOLDER_VARIABLE = "INJECTION_FOLDER"


def start(
    folder: Path, *words: str, stdin: int = subprocess.DEVNULL, new_session: bool = False
) -> "subprocess.Popen[str]":
    """Start `nimc inject` in a folder."""
    return subprocess.Popen(
        python_main("nimc.cli.main", "inject", "--machine", "localhost", *words),
        cwd=folder,
        env={**os.environ, FOLDER_VARIABLE: str(folder)},
        text=True,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=new_session,
    )


def processes_of(folder: Path) -> dict[int, str]:
    """Return the processes of `nimc` and those that it has started: PID -> command line."""
    return live_processes(FOLDER_VARIABLE, str(folder))


def record_of(folder: Path) -> dict[str, Any]:
    """Return the record of the injection, which must follow the schema."""
    document: dict[str, Any] = json.loads((folder / "r.json").read_bytes())
    jsonschema.Draft202012Validator(schema_of("injection")).validate(document)
    return document


def assert_proven(document: dict[str, Any], status: int, command_status: int = 0) -> None:
    """Assert that writes were proven, and that the exit status is the command's.

    On a busy host, other programs may keep a writer from the processor for so long that only a part
    is proven; the exit status is 1 then.
    """
    assert document["proven_s"] > 0, document["reason"]
    assert status == (command_status if document["proven"] else 1), document["reason"]


#: Folder, exit status, standard output and standard error of an injection that has ended.
Finished = tuple[Path, int, str, str]


@pytest.fixture(scope="module")
def beside_a_command(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Returns an ended injection beside a command that reads, prints and fails."""
    folder = tmp_path_factory.mktemp("injection")
    code = "import sys, time; time.sleep(1); print(input()); print('no', file=sys.stderr); exit(7)"
    words = ["-o", "r.json", "--", "python3", "-c", code]
    process = start(folder, *words, stdin=subprocess.PIPE)
    out, err = process.communicate("a word\n", timeout=300)
    return folder, process.returncode, out, err


def test_a_command_reads_prints_and_fails_as_without_writers(beside_a_command: Finished) -> None:
    folder, status, out, err = beside_a_command
    assert out == "a word\n", err
    assert "\nno\n" in err
    document = record_of(folder)
    assert_proven(document, status, command_status=7)
    assert (document["ended_by"], document["exit_status"]) == ("command", 7)


def test_caveats_are_recorded_and_printed(beside_a_command: Finished) -> None:
    folder, _, _, err = beside_a_command
    notes = record_of(folder)["notes"]
    assert any("emulation" in note for note in notes)
    assert f"nimc: {notes[-1]}\n" in err


def test_rows_of_the_writers_do_not_overlap_and_are_proven_by_memory(
    beside_a_command: Finished,
) -> None:
    folder, *_ = beside_a_command
    readings = record_of(folder)["readings"]
    writers = [writer for reading in readings for writer in reading["writers"]]
    assert {writer["proof"] for writer in writers} == {"memory"}
    rows = [row for reading in readings for row in reading["rows"]]
    assert rows
    assert all(later["start_s"] >= row["end_s"] - 1e-6 for row, later in pairwise(rows))
    assert all(row["bytes_b"] > 0 for row in rows)


def test_the_command_runs_within_the_writes(beside_a_command: Finished) -> None:
    """The command takes at least a second."""
    folder, *_ = beside_a_command
    document = record_of(folder)
    assert document["start_s"] <= document["command_start_s"]
    assert document["command_start_s"] + 1 <= document["command_end_s"] <= document["end_s"]


def test_no_process_and_no_lock_is_left(beside_a_command: Finished) -> None:
    folder, *_ = beside_a_command
    assert processes_of(folder) == {}
    assert not list(folder.glob("results/.nimc*"))


def test_the_exit_code_is_1_if_nothing_proves_the_writes(tmp_path: Path) -> None:
    if why := INJECTORS["ucx"].why_missing():
        pytest.skip(why)
    process = start(tmp_path, "--injector", "ucx", "-o", "r.json", "--", "true")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1, err
    assert "not proven: " in err
    document = record_of(tmp_path)
    assert (document["proven"], document["exit_status"], document["proven_s"]) == (False, 0, 0)


def wait_for_writes(process: "subprocess.Popen[str]") -> None:
    assert process.stderr
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("nimc: writes from "):
            return
    raise AssertionError("".join(lines))


@pytest.mark.parametrize(
    ("signum", "status", "ended_by"),
    [(signal.SIGINT, 130, "command"), (signal.SIGTERM, 143, "stop"), (signal.SIGKILL, -9, "stop")],
)
def test_no_process_outlives_an_injection_that_gets_a_signal(
    tmp_path: Path, signum: signal.Signals, status: int, ended_by: str
) -> None:
    command = ["sh", "-c", "sleep 1000 & sleep 1000; echo late"]
    process = start(tmp_path, "-o", "r.json", "--", *command, new_session=True)
    wait_for_writes(process)

    def sleeping() -> int:
        return [line.strip() for line in processes_of(tmp_path).values()].count("sleep 1000")

    # The command starts just after the writes are announced.
    wait_until(lambda: sleeping() == 2, process=process)
    # If the command ended before the first rows of the writers, the writes would not be proven, and
    # the exit code would be 1.
    time.sleep(1)
    process.send_signal(signum)
    out, _ = process.communicate(timeout=300)
    assert (process.returncode, out) == (status, "")
    wait_until(lambda: processes_of(tmp_path) == {})
    wait_until(lambda: not list(tmp_path.glob("results/.nimc*")))
    assert record_of(tmp_path)["ended_by"] == ended_by


def test_ctrl_c_ends_an_injection_without_a_command(tmp_path: Path) -> None:
    process = start(tmp_path, "--for", "10min", "--json", "-o", "r.json", new_session=True)
    wait_for_writes(process)
    began_s = time.time()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    document = json.loads(out)
    assert_proven(document, process.returncode)
    assert document["ended_by"] == "stop", err
    assert began_s < document["end_s"] < time.time()
    assert document["readings"] == record_of(tmp_path)["readings"]
    wait_until(lambda: processes_of(tmp_path) == {})


def test_a_campaign_on_this_host_finds_an_injection(tmp_path: Path) -> None:
    process = start(tmp_path, "--for", "10min", "-o", "r.json")
    wait_for_writes(process)
    (folder,) = tmp_path.glob("results/.nimc-inject-*")
    pids = processes_of(tmp_path).keys() - {process.pid}
    run_pids = set(session.processes_of(folder))
    concurrent_runs = session.concurrent_runs(tmp_path / "quick-localhost-1")
    process.terminate()
    process.communicate(timeout=300)
    assert run_pids == pids
    assert "an injection" in concurrent_runs


def test_writes_end_after_the_given_time_and_the_command_continues(tmp_path: Path) -> None:
    words = ["--for", "2s", "-o", "r.json", "--", "sh", "-c", "sleep 12; exit 3"]
    process = start(tmp_path, *words)
    _, err = process.communicate(timeout=300)
    document = record_of(tmp_path)
    assert_proven(document, process.returncode, command_status=3)
    assert document["ended_by"] == "time", err
    assert document["end_s"] < document["command_end_s"]


def test_a_command_continues_if_its_writers_are_killed(tmp_path: Path) -> None:
    process = start(tmp_path, "-o", "r.json", "--", "sh", "-c", "sleep 8; echo done")
    wait_for_writes(process)
    for pid, line in processes_of(tmp_path).items():
        if Path(line.partition(" ")[0]).name == "mpi_put":
            os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, "done\n"), err
    document = record_of(tmp_path)
    assert (document["ended_by"], document["proven"], document["exit_status"]) == (
        "failure",
        False,
        0,
    )
    assert document["reason"].startswith("writer 0: ")
    assert document["end_s"] < document["command_end_s"]


def type_keys(terminal: int, keys: bytes, after: bytes) -> None:
    """Wait until a terminal shows the text `after`, then type `keys`."""
    shown = b""
    while after not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, keys)


def read_to_end(terminal: int) -> None:
    with suppress(OSError):  # the other end is closed
        while os.read(terminal, 4096):
            pass


def test_a_command_can_use_the_terminal(tmp_path: Path) -> None:
    """The command reads what is typed. Ctrl-C interrupts only the command."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        words = ["inject", "--machine", "localhost", "-o", "r.json", "--", "python3", "-q", "-i"]
        argv = python_main("nimc.cli.main", *words)
        os.execve(argv[0], argv, {**os.environ, "PYTHONPATH": str(ROOT)})
    # If Ctrl-C comes just before a `sleep` begins, this `sleep` is not shortened. So the command
    # sleeps many times for a short time.
    wait = b"[time.sleep(0.1) for _ in range(10_000)]"
    type_keys(terminal, b"import time; print(6 * 7); " + wait + b"\n", after=b">>> ")
    type_keys(terminal, b"\x03", after=b"42\r\n")
    type_keys(terminal, b"exit(9)\n", after=b"KeyboardInterrupt")
    read_to_end(terminal)
    _, status = os.waitpid(pid, 0)
    document = record_of(tmp_path)
    assert_proven(document, os.waitstatus_to_exitcode(status), command_status=9)
    assert (document["ended_by"], document["exit_status"]) == ("command", 9)
