"""Signals while a report is made."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest

from campaigns.running.interrupts import Stopped, stopped_at_once


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
