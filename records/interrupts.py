"""Handles signals that ask to stop.

The process cleans up before it stops. It notices a signal at once, without polling.

Before the time of a job ends, Slurm sends it the signal that `--signal` names, often SIGUSR1. A
signal that is ignored when this process starts, as SIGHUP under `nohup`, stays ignored.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

#: The signals that ask to stop. Without a handler they end a process without a message.
STOP_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGXCPU,
)
#: Time after which Stopped is raised again, seconds.
_REPEAT_S = 1.0


class Stopped(BaseException):
    """The user or the system asked to stop. No library's `except Exception` swallows it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


def _unignored_stop_signals() -> list[signal.Signals]:
    """The signals that ask to stop, except ignored ones, such as SIGHUP under `nohup`."""
    return [signum for signum in STOP_SIGNALS if signal.getsignal(signum) is not signal.SIG_IGN]


@contextmanager
def exit_when_stopped() -> Iterator[None]:
    """Within this context, Stopped ends the process with the exit status of a signal.

    The code in the context must have cleaned up when it raises Stopped.
    """
    try:
        yield
    except Stopped as stop:
        print(f"nimc: stopped by {stop}; no job is left", file=sys.stderr)
        raise SystemExit(128 + stop.signum) from None


@contextmanager
def stopped_after_clean_up() -> Iterator[None]:
    """Within this context, signals that ask to stop raise Stopped.

    SIGINT still raises KeyboardInterrupt.
    """

    def stop(signum: int, _frame: FrameType | None) -> None:
        raise Stopped(signum)

    signums = [signum for signum in _unignored_stop_signals() if signum != signal.SIGINT]
    earlier_handlers = {signum: signal.signal(signum, stop) for signum in signums}
    try:
        yield
    finally:
        for signum, handler in earlier_handlers.items():
            signal.signal(signum, handler)


@contextmanager
def stopped_at_once() -> Iterator[None]:
    """Within this context a signal that asks to stop raises Stopped wherever it arrives.

    Python drops an exception in some places, such as a callback of an import. So Stopped is raised
    again every second, and when the context ends.
    """
    arrived: list[int] = []

    def stop(signum: int, _frame: FrameType | None) -> None:
        arrived.append(signum)
        signal.setitimer(signal.ITIMER_REAL, _REPEAT_S, _REPEAT_S)
        raise Stopped(arrived[0])

    earlier_handlers = {
        signum: signal.signal(signum, stop)
        for signum in (*_unignored_stop_signals(), signal.SIGALRM)
    }
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for signum, handler in earlier_handlers.items():
            signal.signal(signum, handler)
    if arrived:
        raise Stopped(arrived[0])


class Interrupts:
    """A context in which signals that ask to stop are counted and do not end the process."""

    def __init__(self, takes_key: Callable[[], bool] = lambda: False) -> None:
        """`takes_key` is called at Ctrl-C and Ctrl-\\; if true, the key does not ask to stop."""
        self._takes_key = takes_key
        #: The first signal that arrived, and the number of signals.
        self.signum: int | None = None
        self.count = 0
        self._earlier_handlers: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._earlier_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for signum in (*_unignored_stop_signals(), signal.SIGCHLD):
            self._earlier_handlers[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._earlier_handlers.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._earlier_wakeup)
        os.close(self._read_end)
        os.close(self._write_end)

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        if signum in (signal.SIGINT, signal.SIGQUIT) and self._takes_key():
            return
        if signum in STOP_SIGNALS:
            self.signum = self.signum or signum
            self.count += 1

    def wait(self, seconds: float) -> None:
        """Sleep, but wake when a signal arrives or a child ends."""
        select.select([self._read_end], [], [], seconds)
        with suppress(BlockingIOError):  # the pipe is empty
            while os.read(self._read_end, 512):
                pass

    def check(self) -> None:
        """Raise Stopped if a signal has arrived."""
        if self.signum is not None:
            raise Stopped(self.signum)
