"""Signals that ask to stop, sent by this process to itself."""

import signal

import pytest

from records.interrupts import (
    STOP_SIGNALS,
    Interrupts,
    Stopped,
    exit_when_stopped,
    stopped_after_clean_up,
    stopped_at_once,
)


@pytest.fixture(autouse=True)
def handlers():
    """Check that a test leaves every handler as it was, and no descriptor to wake."""
    before = [signal.getsignal(signum) for signum in STOP_SIGNALS]
    yield
    assert [signal.getsignal(signum) for signum in STOP_SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_ends_the_process_with_the_exit_status_of_its_signal(signum, capsys):
    with pytest.raises(SystemExit) as ended, exit_when_stopped(), stopped_after_clean_up():
        signal.raise_signal(signum)
    assert ended.value.code == 128 + signum
    assert signum.name in capsys.readouterr().err


def test_ctrl_c_remains_a_keyboard_interrupt_and_an_ignored_signal_ignored():
    with pytest.raises(KeyboardInterrupt), stopped_after_clean_up():
        signal.raise_signal(signal.SIGINT)
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_after_clean_up(), stopped_at_once(), Interrupts() as interrupts:
            signal.raise_signal(signal.SIGHUP)
            interrupts.check()
    finally:
        signal.signal(signal.SIGHUP, handler)


def test_a_stop_that_is_swallowed_is_raised_again_at_the_end():
    context = stopped_at_once()
    context.__enter__()
    for signum in (signal.SIGTERM, signal.SIGUSR1):
        with pytest.raises(Stopped, match="SIGTERM"):
            signal.raise_signal(signum)
    with pytest.raises(Stopped, match="SIGTERM"):
        context.__exit__(None, None, None)


def test_signals_are_counted_and_the_first_one_is_the_reason():
    with Interrupts(takes_key=lambda: True) as interrupts:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGQUIT)
        signal.raise_signal(signal.SIGCHLD)
        assert (interrupts.count, interrupts.signum) == (0, None)
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGTERM)
        interrupts.wait(60)  # returns at once, since signals have arrived
        assert (interrupts.count, interrupts.signum) == (2, signal.SIGUSR1)
        with pytest.raises(Stopped, match="SIGUSR1"):
            interrupts.check()
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.count == 1
