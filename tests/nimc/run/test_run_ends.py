"""Signals to `nimc run`, its death, two at once: what is left running, and what is said."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from nimc.run.session import users_of
from tests.nimc.conftest import Nimc

Wait = Callable[[Callable[[], bool]], None]


@pytest.mark.parametrize(
    ("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_leaves_no_process_and_says_how_to_resume(
    nimc: Nimc, wait_until: Wait, signum: signal.Signals, status: int
) -> None:
    process = nimc.start("--fresh", fake="held,child")
    wait_until(lambda: nimc.results.exists() and len(list(nimc.results.glob("*/samples/*"))) > 0)
    process.send_signal(signum)
    _, err = process.communicate(timeout=120)
    assert process.returncode == status
    assert err.splitlines()[-1].startswith(
        f"nimc: stopped by {signum.name}; all samples are saved; to resume: nimc run "
    )
    assert err.endswith("nimc run small.yaml --machine localhost --results results\n")
    assert users_of(nimc.the_run()) == []
    assert children_of_nobody(nimc) == []


def test_under_nohup_a_hangup_stops_nothing(nimc: Nimc, wait_until: Wait) -> None:
    ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    process = nimc.start(fake="held", preexec_fn=ignore)
    wait_until(lambda: nimc.results.exists() and len(list(nimc.results.glob("*/samples/*"))) > 0)
    process.send_signal(signal.SIGHUP)
    process.terminate()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "stopped by SIGTERM; all samples are saved" in err


def test_a_run_whose_folder_is_gone_is_named(nimc: Nimc, wait_until: Wait) -> None:
    process = nimc.start(fake="slow")
    wait_until(lambda: nimc.results.exists() and len(list(nimc.results.glob("*/samples/*"))) > 0)
    run = nimc.the_run()
    nimc.results.rename(nimc.folder / "unmounted")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3
    assert err.splitlines()[-1] == (
        f"nimc: {run}: this folder is gone: deleted, or not mounted any more"
    )


def test_a_second_signal_ends_even_what_does_not_listen(nimc: Nimc, wait_until: Wait) -> None:
    process = nimc.start(fake="held,deaf")
    wait_until(lambda: nimc.results.exists() and len(list(nimc.results.glob("*/samples/*"))) > 0)
    process.terminate()
    time.sleep(0.3)
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == 143
    assert users_of(nimc.the_run()) == []


def test_when_nimc_itself_is_killed_its_session_ends_too(nimc: Nimc, wait_until: Wait) -> None:
    process = nimc.start(fake="held")
    wait_until(lambda: nimc.results.exists() and len(list(nimc.results.glob("*/samples/*"))) > 0)
    process.kill()
    process.communicate()
    wait_until(lambda: users_of(nimc.the_run()) == [])


def test_a_process_left_by_a_session_is_ended_before_the_next(nimc: Nimc) -> None:
    assert nimc.run(fake="child")[0] == 0
    assert children_of_nobody(nimc) == []


def children_of_nobody(nimc: Nimc) -> list[int]:
    """Processes that the stand-in left with no trace of the run in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")[:2]
                folder = os.readlink(entry / "cwd")
            except OSError:
                continue
            if words == [b"sleep", b"300"] and folder.startswith(str(nimc.folder)):
                found.append(int(entry.name))
    return found


def test_two_at_once_do_not_share_a_run(nimc: Nimc, wait_until: Wait) -> None:
    first = nimc.start(fake="held")
    wait_until(lambda: nimc.results.exists() and len(list(nimc.results.glob("*/samples/*"))) > 0)
    status, out, err = nimc.run()
    assert (status, out) == (2, "")
    assert f"another nimc (process {first.pid}) is running this campaign there" in err
    first.terminate()
    first.communicate()
