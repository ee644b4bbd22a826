"""Where trials are made: how a campaign is started there, and what it may leave."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.spec import CHECKOUT
from tests.faults.checks import MIN_SHARE, PAIRS, Ended
from tests.faults.roles import Process
from tests.faults.sandbox import Sandbox
from tests.undisturbed import VERIFY

#: As short as a campaign can be. The machine's other work rejects none of its runs.
TEXT = f"""\
name: tiny
title: STREAM, as short as can be
workloads:
  - {{check: stream, set: {{iterations: 30, array_most: 32MiB, warmups: 0}}, expect: 1s}}
arms: [off, on]
pairs: {{floor: {PAIRS}}}
verify: {{min_share: {MIN_SHARE}, {VERIFY}}}
run_timeout: 30s
"""
#: How long processes and jobs may take to end after nimc has, seconds.
_LEFT_S = 20.0
_LOOK_S = 0.02


def wait_until(holds: Callable[[], bool], timeout_s: float) -> bool:
    until_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until_s:
            return False
        time.sleep(_LOOK_S)
    return True


@dataclass
class Nimc:
    process: subprocess.Popen[bytes]
    err: Path

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def end(self, bound_s: float) -> Ended:
        began_s = time.monotonic()
        status: int | None
        try:
            status = self.process.wait(bound_s)
        except subprocess.TimeoutExpired:
            status = None
            self.process.kill()
            self.process.wait()
        took_s = time.monotonic() - began_s
        return Ended(status, self.err.read_text(errors="replace"), took_s, bound_s)


class Place:
    """This host: one sandbox for each trial. Other places are subclasses."""

    machine = "localhost"
    #: Whether samples bear times of another clock than this host's.
    own_clocks = False
    #: Everything may take so many times as long as on this host.
    patience = 1.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandbox: Sandbox
        (folder / "home").mkdir(exist_ok=True)

    @classmethod
    @contextmanager
    def made(cls, folder: Path) -> Iterator[Place]:
        yield cls(folder)

    @contextmanager
    def opened(self, name: str, disk_b: int = 0) -> Iterator[None]:
        """Have a sandbox for a trial; what is left in it is killed."""
        self.sandbox = Sandbox(self.folder / name, disk_b)
        try:
            (self.sandbox.work / "tiny.yaml").write_text(TEXT)
            yield
        finally:
            self.sandbox.close()

    def environment(self) -> dict[str, str]:
        return {
            **{name: text for name, text in os.environ.items() if name != "TMPDIR"},
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder / "home"),
        }

    def start(self, name: str) -> Nimc:
        return self.nimc(
            name, "run", "tiny.yaml", "--machine", self.machine, "--results", "results"
        )

    def nimc(self, name: str, *words: str) -> Nimc:
        main = "from nimc.cli.main import main; main()"
        err = self.sandbox.work / f"{name}.err"
        with err.open("wb") as said:
            process = subprocess.Popen(
                self.sandbox.command(sys.executable, "-c", main, *words),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        return Nimc(process, err)

    def processes(self) -> list[Process]:
        return self.sandbox.processes()

    def victims(self) -> list[Process]:
        return self.processes()

    def send(self, process: Process, signum: int) -> None:
        """Send a process a signal; it may have ended meanwhile."""
        with suppress(ProcessLookupError):
            os.kill(process.pid, signum)

    def jobs(self) -> list[str]:
        return []

    def left(self) -> list[str]:
        """Processes and jobs that do not end by themselves."""
        found: list[str] = []

        def nothing() -> bool:
            found[:] = [f"process {each.line}" for each in self.processes()]
            found.extend(f"job {each}" for each in self.jobs())
            return not found

        wait_until(nothing, _LEFT_S * self.patience)
        return found

    def files(self) -> list[str]:
        return self.sandbox.files()

    def repair(self) -> None:
        """Restart what was killed, so that the next trial finds the place as this one did."""
