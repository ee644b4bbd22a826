"""A Slurm that falls silent, played by files: a command succeeds while its file exists."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from campaigns.running import jobs, slurm_watch
from campaigns.running.slurm_watch import SilentError, SlurmWatch


class Clock:
    """A watch that is looked at as time passes, faster than it does."""

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.told: list[str] = []
        self.controller, self.accounting = run / "controller", run / "accounting"
        self.controller.write_text(f"7 {run}/logs\n8 /elsewhere\n")
        squeue = ("cat", str(self.controller))
        sacct = ("cat", str(self.accounting))
        monkeypatch.setattr(jobs, "SQUEUE", squeue)
        monkeypatch.setattr(slurm_watch, "_ASKED", {"slurmctld": squeue, "accounting": sacct})
        self.watch = SlurmWatch(run, self.told.append)

    def go(self, seconds: float, *, finished: bool = False) -> None:
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += 5.0
            self.watch.look(self.now_s, finished=finished)
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


def test_one_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = ("sleep", "300")
    monkeypatch.setattr(slurm_watch, "_ASKED", {"slurmctld": hanging})
    watch = SlurmWatch(tmp_path, lambda _: None)
    began_s = time.monotonic()
    for now_s in (0.0, 30.0, 61.0):
        watch.look(now_s, finished=False)
    (probe,) = watch._probes
    assert probe.running
    assert probe.running.wait(10) == -9
    assert time.monotonic() - began_s < 10
