"""membench beside an application: real runs of the starter, with a stand-in for membench."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import ToolError
from tests.reframe_tests.command import run_tool, script

TOOL = TOOLS["membench:mix:1"]
#: Says its arrays as membench does, takes that much memory, and computes on until it is killed.
STAND_IN = f"""#!{sys.executable}
import os, sys
print("1 arrays of 4194304 bytes a core, normal pages", flush=True)
held = bytearray(b"x" * 4194304)
open(os.environ["SEEN"], "w").write(f"{{os.getpid()}} {{sys.argv[1:]}} {{os.sched_getaffinity(0)}}")
while True:
    pass
"""
CPUS = sorted(os.sched_getaffinity(0))
needs_two = pytest.mark.skipif(len(CPUS) < 2, reason="needs a core beside the application's")


def start(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    cpus: set[int],
    *application: str,
    fds: tuple[int, ...] = (),
) -> subprocess.CompletedProcess[str]:
    program = script(folder / "bin" / "membench", STAND_IN)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("SEEN", str(folder / "seen"))
    bind = functools.partial(os.sched_setaffinity, 0, cpus)
    return run_tool(TOOL, folder, *application, pass_fds=fds, preexec_fn=bind)


@needs_two
def test_membench_runs_on_the_last_core_while_the_application_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"import os; print(os.path.exists({str(tmp_path / 'seen')!r}), os.sched_getaffinity(0))"
    busy = own + "; import time; [time.sleep(0.1) for _ in range(5)]"
    done = start(tmp_path, monkeypatch, {CPUS[0]}, sys.executable, "-c", busy)
    assert done.returncode == 0
    # The application keeps its core, and begins when the arrays are there.
    assert done.stdout.strip() == f"True {{{CPUS[0]}}}"
    pid, _, seen = (tmp_path / "seen").read_text().partition(" ")
    assert seen.startswith(f"['mix', '--cpus', '{CPUS[-1]}', '-d',")
    assert not Path(f"/proc/{pid}").exists()
    (row,) = TOOL.parse(tmp_path, 1)
    assert (row.event, row.unit) == ("membench-cores", "1")
    assert 0 < row.value <= 1.2


@needs_two
@pytest.mark.parametrize(("end", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_the_status_of_the_application_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, status: int
) -> None:
    assert start(tmp_path, monkeypatch, {CPUS[0]}, "sh", "-c", end).returncode == status


@needs_two
def test_descriptors_of_an_mpi_launcher_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, given = os.pipe()
    says = [sys.executable, "-c", f"import os; os.write({given}, b'rank')"]
    done = start(tmp_path, monkeypatch, {CPUS[0]}, *says, fds=(given,))
    os.close(given)
    assert (done.returncode, os.read(held, 9)) == (0, b"rank")
    os.close(held)


def test_a_core_of_the_application_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = start(tmp_path, monkeypatch, set(CPUS), "true")
    assert done.returncode == 1
    assert f"CPUs {CPUS[-1]} are the application's; leave them free" in done.stderr
    with pytest.raises(ToolError, match="no file of any node"):
        TOOL.parse(tmp_path, 1)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"busy_s": 1, "elapsed_s": 0}', '{"busy_s": 1'])
def test_an_invalid_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "rank-0.json").write_text(text)
    with pytest.raises(ToolError, match=r"rank-0\.json: not a file of membench"):
        TOOL.parse(tmp_path, 1)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert TOOL.missing() == "no membench on PATH (make -C reframe_tests/src/membench)"
