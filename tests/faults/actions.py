"""What is done to a campaign. Each action returns once it is over and undone."""

# ruff: noqa: ARG001  # all actions are called alike

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from tests.faults.checks import Ended
from tests.faults.place import Place
from tests.faults.roles import Process
from tests.faults.table import AWAY_S

#: Where it happens, and to whom; None if to no process. Returns how a second nimc ended, if any.
Action = Callable[[Place, Process | None], Ended | None]


def _sending(signum: int) -> Action:
    def send(place: Place, victim: Process | None) -> None:
        assert victim
        with suppress(ProcessLookupError):
            os.kill(victim.pid, signum)

    return send


def stop(place: Place, victim: Process | None) -> None:
    """Stop the process, and let it continue after a while."""
    assert victim
    with suppress(ProcessLookupError):
        os.kill(victim.pid, signal.SIGSTOP)
        time.sleep(AWAY_S)
        os.kill(victim.pid, signal.SIGCONT)


def fill_disk(place: Place, victim: Process | None) -> None:
    """Fill the file system of the results to its last byte."""
    filler = place.sandbox.results / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(2**16)):
            pass
    time.sleep(AWAY_S)
    filler.unlink()


def read_only(place: Place, victim: Process | None) -> None:
    """Let nobody open a file of the results for writing."""
    folder = str(place.sandbox.work / "results")
    place.sandbox.run("mount", "--bind", folder, folder)
    place.sandbox.run("mount", "-o", "remount,bind,ro", folder)
    time.sleep(AWAY_S)
    place.sandbox.run("umount", "--lazy", folder)


def second_nimc(place: Place, victim: Process | None) -> Ended:
    """Start the same campaign once more."""
    return place.start("second").end(30.0)


ACTIONS: dict[str, Action] = {
    "kill": _sending(signal.SIGKILL),
    "terminate": _sending(signal.SIGTERM),
    "interrupt": _sending(signal.SIGINT),
    "hang_up": _sending(signal.SIGHUP),
    "stop": stop,
    "fill_disk": fill_disk,
    "read_only": read_only,
    "second_nimc": second_nimc,
}
