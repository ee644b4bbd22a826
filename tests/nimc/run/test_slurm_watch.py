"""A Slurm that falls silent, played by files: a command succeeds while its file exists."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nimc.machine import slurm
from nimc.run import slurm_watch
from nimc.run.slurm_watch import LostJobError, SilentError, SlurmWatch


class Clock:
    """A watch that is looked at as time passes, faster than it does."""

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.told: list[str] = []
        self.controller, self.accounting = run / "controller", run / "accounting"
        self.controller.write_text(f"7 {run}/logs\n8 /elsewhere\n")
        squeue = ("cat", str(self.controller))
        sacct = ("cat", str(self.accounting))
        monkeypatch.setattr(slurm, "SQUEUE", squeue)
        monkeypatch.setattr(slurm_watch, "_ASKED", {"slurmctld": squeue, "accounting": sacct})
        self.watch = SlurmWatch(run, self.told.append)

    def go(self, seconds: float, **state: bool) -> None:
        state = {"begun": False, "finished": False} | state
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += 5.0
            self.watch.look(self.now_s, **state)
            for probe in self.watch._probes:  # its answer is there before time passes
                if probe.running:
                    probe.running.wait(10)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(tmp_path, monkeypatch)


def test_jobs_of_the_run_are_remembered(clock: Clock) -> None:
    clock.go(30)
    clock.controller.unlink()
    clock.go(30)
    assert clock.watch.jobs == ["7"]


def test_a_minute_of_silence_is_told_once_and_so_is_its_end(clock: Clock) -> None:
    clock.go(30)
    text = clock.controller.read_text()
    clock.controller.unlink()
    clock.go(120)
    (line,) = clock.told
    assert line.startswith("slurmctld has not answered for ")
    assert line.endswith(" s; waits up to 10 min")
    clock.controller.write_text(text)
    clock.go(60)
    assert clock.told[1:] == ["slurmctld answers again"]


def test_ten_minutes_of_silence_end_the_session(clock: Clock) -> None:
    clock.accounting.touch()
    clock.go(30)
    clock.accounting.unlink()
    clock.go(570)
    with pytest.raises(SilentError, match=r"accounting has not answered for 6\d\d s"):
        clock.go(60)


def test_a_finished_block_is_not_waited_for(clock: Clock) -> None:
    clock.go(30)
    clock.controller.unlink()
    with pytest.raises(SilentError, match=r"slurmctld has not answered for [67]\d s"):
        clock.go(90, finished=True)


def test_what_never_answered_is_not_missed(clock: Clock) -> None:
    """A site without accounting."""
    clock.go(3000)
    assert clock.told == []


def lose_job(clock: Clock) -> None:
    """A crash of slurmctld before it had saved the job."""
    clock.controller.write_text("8 /elsewhere\n")


def test_a_job_that_slurm_lost_is_not_waited_for(clock: Clock) -> None:
    clock.go(300)
    lose_job(clock)
    clock.go(60)
    with pytest.raises(LostJobError, match=r"not been in the queue for [67]\d s"):
        clock.go(60)


def test_reframe_may_read_the_outputs_of_a_job_for_ten_minutes(clock: Clock) -> None:
    clock.go(300)
    lose_job(clock)
    clock.go(590, reading=True)
    with pytest.raises(LostJobError, match=r"not been in the queue for 6\d\d s"):
        clock.go(60, reading=True)


def test_a_job_that_was_never_seen_in_the_queue_is_lost_as_well(clock: Clock) -> None:
    lose_job(clock)
    clock.go(300)
    with pytest.raises(LostJobError):
        clock.go(120, begun=True)


def test_a_job_that_is_queued_again_is_not_lost(clock: Clock) -> None:
    text = clock.controller.read_text()
    clock.go(30)
    for _ in range(3):
        lose_job(clock)
        clock.go(50)
        clock.controller.write_text(text)
        clock.go(50)


def test_the_next_block_has_no_job_yet(clock: Clock) -> None:
    """It may be compiled for long."""
    clock.go(30)
    lose_job(clock)
    clock.watch.next_block()
    clock.go(600)


def test_while_accounting_is_away_reframe_may_wait(clock: Clock) -> None:
    clock.accounting.touch()
    clock.go(30)
    clock.accounting.unlink()
    clock.go(100)
    lose_job(clock)
    clock.go(300)
    clock.accounting.touch()
    with pytest.raises(LostJobError):
        clock.go(60)


def test_one_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = ("sleep", "300")
    monkeypatch.setattr(slurm_watch, "_ASKED", {"slurmctld": hanging})
    watch = SlurmWatch(tmp_path, lambda _: None)
    began_s = time.monotonic()
    for now_s in (0.0, 30.0, 61.0):
        watch.look(now_s, begun=True, finished=False)
    (probe,) = watch._probes
    assert probe.running
    assert probe.running.wait(10) == -9
    assert time.monotonic() - began_s < 10
