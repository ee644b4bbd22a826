"""`nimc run` as a child of the night, ended when the window or the budget is used up."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.checkout import ROOT
from analysis.errors import MachineError
from analysis.start_python import python_path
from campaigns.nightly.description import Nightly
from campaigns.running.child import NIMC, stop
from campaigns.running.interrupts import Interrupts
from campaigns.running.session import end_with

#: How often the limits are looked at, seconds.
_LOOK_S = 5.0

#: Variables of a Slurm job, and one of them that the site sets.
_OF_JOB = ("SLURM_", "SLURMD_", "SBATCH_")
_OF_SITE = ("SLURM_CONF",)

#: Says that it is time to stop, and why; None while it is not.
Limit = Callable[[], str | None]


@dataclass(frozen=True)
class EndedRun:
    """How `nimc run` ended."""

    status: int
    #: Its JSON document; empty if it printed none.
    document: dict[str, Any] = field(default_factory=dict)
    #: Its last line.
    said: str = ""
    #: Why it was stopped; None if it ended by itself.
    stopped: str | None = None

    @property
    def concluded(self) -> Path | None:
        """The run that it completed; the samples may be those of a night that was killed."""
        whole = self.status in (0, 1) and self.document.get("results")
        return Path(self.document["run"]) if whole else None


def measure(
    nightly: Nightly, *options: str, log: Path, limit: Limit, lock: int, verbose: bool = False
) -> EndedRun:
    """Run or resume the campaign within a limit; its messages are appended to `log`.

    The child keeps the machine's lock until it has ended, even if this process is killed.
    """
    argv = [*NIMC, "run", str(nightly.campaign), "--machine", nightly.asked.machine]
    argv += ["--results", str(nightly.results), "--json", *options]
    argv += ["--verbose"] if verbose else []
    try:
        said = log.open("ab")
    except OSError as error:
        raise MachineError(f"{log}: {error.strerror}") from error
    with said, tempfile.TemporaryFile() as output, Interrupts() as interrupts:
        began = said.tell()
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=said,
            env=environment(),
            cwd=ROOT,
            start_new_session=True,
            pass_fds=[lock],
            preexec_fn=end_with(os.getpid()),
        )
        stopped = _attend(child, interrupts, limit)
        output.seek(0)
        return EndedRun(child.returncode, _document(output.read()), _last(log, began), stopped)


def environment() -> dict[str, str]:
    """The environment in which `NIMC` finds this checkout.

    The night may be a Slurm job itself; the jobs that it submits do not inherit its variables.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _OF_SITE or not name.startswith(_OF_JOB)
    }
    return {**kept, "PYTHONPATH": python_path(ROOT)}


def _attend(child: subprocess.Popen[bytes], interrupts: Interrupts, limit: Limit) -> str | None:
    """Wait for the child, or stop it; returns why."""
    stopped = None
    while child.poll() is None and stopped is None:
        interrupts.wait(_LOOK_S)
        stopped = "stopped by a signal" if interrupts.signum is not None else limit()
    if child.poll() is None:
        stop([child])
        return stopped
    return None


def _document(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _last(log: Path, began: int) -> str:
    """The last line that the child printed."""
    with log.open("rb") as file:
        file.seek(began)
        lines = file.read().decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1].removeprefix("nimc: ") if said else ""
