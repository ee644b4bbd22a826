"""`nimc inject` with real writers on this host, in the ways in which it may end."""

import json
import os
import pty
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conductor.injectors import INJECTORS
from nimc.crate.schemas import schema_of
from records.checkout import ROOT, python_main
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        INJECTORS["mpi_put"].missing() is not None, reason=str(INJECTORS["mpi_put"].missing())
    ),
]


def start(folder: Path, *words: str, **more: Any) -> "subprocess.Popen[str]":
    """Start it; what it starts has a variable with this folder in its environment."""
    command = python_main("nimc.cli.main", "inject", "--machine", "localhost", *words)
    environment = {**os.environ, "INJECTION": str(folder)}
    out = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, **{**out, **more})


def left(folder: Path) -> list[str]:
    """Command lines of live processes that it has started, with what these have started."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"INJECTION={folder}".encode() in (process / "environ").read_bytes()
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            if marked and state != "Z":
                commands.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return commands


def record(folder: Path) -> dict[str, Any]:
    """Its record, which follows the schema."""
    document: dict[str, Any] = json.loads((folder / "r.json").read_bytes())
    jsonschema.Draft202012Validator(schema_of("injection")).validate(document)
    return document


def assert_proven(document: dict[str, Any], status: int, command: int = 0) -> None:
    """Writes were proven, and the exit status is the command's; of a busy host, for a part, and 1.

    Other programs may keep a writer from the processor for so long that it is not proven.
    """
    assert document["proven_s"] > 0, document["reason"]
    assert status == (command if document["proven"] else 1), document["reason"]


def test_a_command_reads_prints_and_fails_as_without_writers(tmp_path: Path) -> None:
    code = "import sys, time; time.sleep(1); print(input()); print('no', file=sys.stderr); exit(7)"
    words = ["-o", "r.json", "--", "python3", "-c", code]
    started = start(tmp_path, *words, stdin=subprocess.PIPE)
    out, err = started.communicate("a word\n", timeout=300)
    assert out == "a word\n", err
    assert "\nno\n" in err
    document = record(tmp_path)
    assert_proven(document, started.returncode, command=7)
    assert (document["ended_by"], document["exit_status"]) == ("command", 7)
    assert any("emulation" in note for note in document["notes"])
    assert f"nimc: {document['notes'][-1]}\n" in err
    assert {
        writer["proof"] for reading in document["readings"] for writer in reading["writers"]
    } == {"memory"}
    rows = [row for reading in document["readings"] for row in reading["rows"]]
    assert rows
    assert all(after["start_s"] >= row["end_s"] - 1e-6 for row, after in pairwise(rows))
    assert all(row["bytes_b"] > 0 for row in rows)
    assert document["start_s"] <= document["command_start_s"]
    assert document["command_start_s"] + 1 <= document["command_end_s"] <= document["end_s"]
    assert left(tmp_path) == []
    assert not list(tmp_path.glob("results/.nimc*"))


def test_writes_that_nothing_shows_are_no_success(tmp_path: Path) -> None:
    if why := INJECTORS["ucx"].missing():
        pytest.skip(why)
    started = start(tmp_path, "--injector", "ucx", "-o", "r.json", "--", "true")
    _, err = started.communicate(timeout=300)
    assert started.returncode == 1, err
    assert "not proven: unproven: no device counted" in err
    document = record(tmp_path)
    assert (document["proven"], document["exit_status"], document["proven_s"]) == (False, 0, 0)


def begun(started: "subprocess.Popen[str]") -> None:
    """Wait until it writes."""
    assert started.stderr
    lines = []
    for line in started.stderr:
        lines.append(line)
        if line.startswith("nimc: writes from "):
            return
    raise AssertionError("".join(lines))


@pytest.mark.parametrize(
    ("signum", "status", "ended_by"),
    [(signal.SIGINT, 130, "command"), (signal.SIGTERM, 143, "stop"), (signal.SIGKILL, -9, "stop")],
)
def test_nothing_outlives_it(
    tmp_path: Path, signum: signal.Signals, status: int, ended_by: str
) -> None:
    command = ["sh", "-c", "sleep 1000 & sleep 1000; echo late"]
    started = start(tmp_path, "-o", "r.json", "--", *command, start_new_session=True)
    begun(started)
    # The command starts just after the writes are announced; both of its processes are awaited.
    wait_until(lambda: sum("sleep 1000" in line for line in left(tmp_path)) >= 2, process=started)
    started.send_signal(signum)
    out, _ = started.communicate(timeout=300)
    assert (started.returncode, out) == (status, "")
    wait_until(lambda: left(tmp_path) == [])
    wait_until(lambda: not list(tmp_path.glob("results/.nimc*")))
    assert record(tmp_path)["ended_by"] == ended_by


def test_ctrl_c_ends_it_without_a_command(tmp_path: Path) -> None:
    started = start(tmp_path, "--for", "10min", "--json", "-o", "r.json", start_new_session=True)
    begun(started)
    began_s = time.time()
    os.killpg(started.pid, signal.SIGINT)
    out, err = started.communicate(timeout=300)
    document = json.loads(out)
    assert_proven(document, started.returncode)
    assert document["ended_by"] == "stop", err
    assert began_s < document["end_s"] < time.time()
    assert document["readings"] == record(tmp_path)["readings"]
    wait_until(lambda: left(tmp_path) == [])


def test_the_time_ends_the_writes_and_the_command_goes_on(tmp_path: Path) -> None:
    words = ["--for", "2s", "-o", "r.json", "--", "sh", "-c", "sleep 12; exit 3"]
    started = start(tmp_path, *words)
    _, err = started.communicate(timeout=300)
    document = record(tmp_path)
    assert_proven(document, started.returncode, command=3)
    assert document["ended_by"] == "time", err
    assert document["end_s"] < document["command_end_s"]


def test_a_command_goes_on_without_its_writers(tmp_path: Path) -> None:
    started = start(tmp_path, "-o", "r.json", "--", "sh", "-c", "sleep 8; echo done")
    begun(started)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text().strip()
            ours = f"INJECTION={tmp_path}".encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if name == "mpi_put" and ours:
            os.kill(int(process.name), signal.SIGKILL)
    out, err = started.communicate(timeout=300)
    assert (started.returncode, out) == (1, "done\n"), err
    document = record(tmp_path)
    assert (document["ended_by"], document["proven"], document["exit_status"]) == (
        "failure",
        False,
        0,
    )
    assert document["reason"].startswith("writer 0: ")
    assert document["end_s"] < document["command_end_s"]


def test_a_command_has_the_terminal(tmp_path: Path) -> None:
    """It reads what is typed, and Ctrl-C is for it alone."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        words = ["inject", "--machine", "localhost", "-o", "r.json", "--", "python3", "-q", "-i"]
        argv = python_main("nimc.cli.main", *words)
        os.execve(argv[0], argv, {**os.environ, "PYTHONPATH": str(ROOT)})
    typed = [
        (b">>> ", b"import time; print(6 * 7); time.sleep(1000)\n"),
        (b"42\r\n", b"\x03"),
        (b"KeyboardInterrupt", b"exit(9)\n"),
    ]
    shown = b""
    for expected, keys in typed:
        while expected not in shown:
            shown += os.read(terminal, 4096)
        os.write(terminal, keys)
        shown = b""
    while True:
        try:
            if not os.read(terminal, 4096):
                break
        except OSError:  # closed at the other end
            break
    _, status = os.waitpid(pid, 0)
    document = record(tmp_path)
    assert_proven(document, os.waitstatus_to_exitcode(status), command=9)
    assert (document["ended_by"], document["exit_status"]) == ("command", 9)
