"""Signals after the last block, and while a report is made."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest
from click.testing import CliRunner

from nimc.base.interrupts import Stopped, exit_when_stopped, stopped_at_once
from nimc.cli.main import cli
from nimc.run.runner import CampaignRunner, Failure
from tests.nimc.conftest import Nimc


def _drop_the_first_and_wait() -> None:
    with suppress(Stopped):
        os.kill(os.getpid(), signal.SIGHUP)
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        time.sleep(0.01)


def test_a_signal_whose_exception_was_dropped_is_raised_again() -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGHUP, signal.SIGALRM)]
    with pytest.raises(Stopped, match="SIGHUP"), stopped_at_once():
        _drop_the_first_and_wait()
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert [signal.getsignal(each) for each in (signal.SIGHUP, signal.SIGALRM)] == handlers


def test_a_signal_whose_exception_was_dropped_is_raised_at_the_end_at_the_latest() -> None:
    with pytest.raises(Stopped, match="SIGHUP"), stopped_at_once(), suppress(Stopped):
        os.kill(os.getpid(), signal.SIGHUP)


@pytest.mark.parametrize(("name", "status"), [("SIGHUP", 129), ("SIGINT", 130), ("SIGTERM", 143)])
def test_a_command_that_is_stopped_exits_as_the_signal_would(name: str, status: int) -> None:
    with pytest.raises(SystemExit) as end, exit_when_stopped():
        raise Stopped(signal.Signals[name])
    assert end.value.code == status


def test_a_signal_after_the_last_block_is_obeyed(
    nimc: Nimc, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_all(_: CampaignRunner) -> list[Failure]:
        os.kill(os.getpid(), signal.SIGTERM)
        return []

    monkeypatch.setattr(CampaignRunner, "run_all", run_all)
    monkeypatch.chdir(nimc.folder)
    words = ["run", "small.yaml", "--machine", "localhost", "--results", "results"]
    ended = CliRunner().invoke(cli, words, standalone_mode=False)
    assert ended.return_value == 143
    assert "nimc: stopped by SIGTERM; all samples are saved; to resume: nimc" in ended.output
    assert nimc.header()["finished_s"] is None
