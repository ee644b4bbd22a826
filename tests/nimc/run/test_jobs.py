"""Jobs that nobody waits for, and a silent Slurm."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from nimc.run import runner
from nimc.run import session as sessions
from nimc.run.progress import Display
from nimc.run.runner import CampaignRunner
from records.block_plan import BlockPlan
from records.campaign import Campaign
from records.errors import MachineError
from records.interrupts import Interrupts, Stopped
from records.machine.site import Machine, Origins
from records.programs import ProgramAnswer
from records.slurm import client, outages, parse
from records.slurm.outages import LostJobError, SilentError, SlurmWatch
from tests.nimc.campaign.made_request import made_request
from tests.nimc.checkouts import program

CAMPAIGN: dict[str, Any] = {
    "name": "c",
    "workloads": [{"check": "stream", "expect": "1s"}],
    "arms": ["off", "on"],
    "pairs": {"floor": 6},
}
MACHINE = Machine(name="m", description="", origins=Origins(policy="hetjob"), injector="perftest")
#: Between a job and its folder, as squeue prints them of a job that runs.
RUNS = "|R|2026-11-23T20:00:00|None|"


def test_a_heterogeneous_job_that_is_just_ending_is_cancelled_as_a_whole(tmp_path, monkeypatch):
    two = f"2+0{RUNS}{tmp_path}/a\n2+1{RUNS}{tmp_path}/a\n"
    listed = [f"{two}5{RUNS}{tmp_path}/b\n", f"2+1{RUNS}{tmp_path}/a\n", ""]
    cancellations: list[list[str]] = []

    def answer(command: Sequence[str], **_: str) -> ProgramAnswer:
        if command == client.SQUEUE:
            return ProgramAnswer("squeue", 0, listed.pop(0), "")
        cancellations.append([*command])
        return ProgramAnswer("scancel", 1, "", "Operation not permitted")

    monkeypatch.setattr(client, "ask", answer)
    assert client.cancel_jobs(tmp_path) == ["2", "5"]
    assert cancellations == [["scancel", "2", "5"]]
    # What does not end is named, with why Slurm refused.
    monkeypatch.setattr(client, "END_TIMEOUT_S", -1.0)
    listed += [f"5{RUNS}{tmp_path}/b\n"] * 2
    with pytest.raises(MachineError, match=r"end: \['5'\]: scancel: exit status 1: Operation not"):
        client.cancel_jobs(tmp_path)


def work_in(
    run: Path, interrupts: Interrupts, *, slurm: bool = False, **fields: Any
) -> CampaignRunner:
    (run / "run.json").write_text("{}")
    request = made_request(Campaign.model_validate(CAMPAIGN | fields), MACHINE, slurm=slurm)
    return CampaignRunner(
        request=request,
        run=run,
        reframe="reframe",
        seed=1,
        interrupts=interrupts,
        display=Display(),
    )


@pytest.mark.parametrize(("slurm", "ended"), [(True, 1), (False, 0)])
@pytest.mark.parametrize("cause", ["killed", "stopped"])
def test_what_a_dead_reframe_left_is_ended_also_where_nodes_are_shared(
    tmp_path, monkeypatch, slurm, ended, cause
):
    def session(*_: object) -> int:
        if cause == "stopped":
            raise Stopped(signal.SIGTERM)
        return -signal.SIGKILL

    cancelled: list[Path] = []
    monkeypatch.setattr(outages, "PROBES", {})
    monkeypatch.setattr(runner, "run_session", session)
    monkeypatch.setattr(client, "cancel_jobs", cancelled.append)
    with Interrupts() as interrupts:
        work = work_in(tmp_path, interrupts, slurm=slurm)
        if cause == "stopped":
            with pytest.raises(Stopped):
                work.run_all()
        else:
            assert "SIGKILL" in work.run_all()[0].reason
        work.close()
    assert cancelled == [tmp_path] * ended


@pytest.mark.parametrize("slurm", [True, False])
def test_a_run_beside_another_on_one_host_says_so_and_notes_it(
    tmp_path, monkeypatch, capsys, slurm
):
    monkeypatch.setattr(outages, "PROBES", {})
    monkeypatch.setattr(runner, "run_session", lambda *_: -signal.SIGKILL)
    monkeypatch.setattr(client, "cancel_jobs", lambda _: None)
    environment = {**os.environ, sessions.RUN_VARIABLE: "/results/quick-localhost-1"}
    with Interrupts() as interrupts, subprocess.Popen(["sleep", "300"], env=environment) as other:
        with closing(work_in(tmp_path, interrupts, slurm=slurm)) as work:
            work.run_all()
        other.kill()
    # The host may have more.
    note = (
        r"another run was being measured on this host when the block began: .*quick-localhost-1\b.*"
    )
    plan = BlockPlan.load(tmp_path / "logs" / "stream" / "0" / "plan.json")
    assert any(re.fullmatch(note, text) for text in plan.notes) != slurm
    warning = f"nimc: {note}; both disturb each other: measure one at a time"
    lines = capsys.readouterr().err.splitlines()
    assert any(re.fullmatch(warning, line) for line in lines) != slurm


def test_a_signal_is_obeyed_though_slurm_is_away_and_jobs_are_named(tmp_path, monkeypatch, capsys):
    def session(*arguments: Any) -> int:
        (probe,) = work.slurm.probes  # type: ignore[union-attr]
        if probe.process:  # asked by the first tick, for the last time
            probe.process.wait(120)
        arguments[-1]()  # its tick
        raise Stopped(signal.SIGINT)

    def cancel(_: Path) -> None:
        raise MachineError("squeue: Unable to contact slurm controller")

    squeue = ("echo", f"7{RUNS}{tmp_path}/logs")
    monkeypatch.setattr(client, "SQUEUE", squeue)
    monkeypatch.setattr(outages, "PROBES", {"slurmctld": squeue})
    monkeypatch.setattr(runner, "run_session", session)
    monkeypatch.setattr(client, "cancel_jobs", cancel)
    with Interrupts() as interrupts:
        work = work_in(tmp_path, interrupts, slurm=True)
        with closing(work), pytest.raises(Stopped):
            work.run_all()
    assert capsys.readouterr().err.splitlines()[-1] == (
        "nimc: squeue: Unable to contact slurm controller; jobs of this run may go on: scancel 7"
    )


def test_a_folder_in_another_encoding_hides_no_job(tmp_path, monkeypatch):
    listed = f"7{RUNS}/old/caf\\351\\n8{RUNS}{tmp_path}/run\\n"
    program(tmp_path, "squeue", f"printf '{listed}'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert client.remaining_jobs(tmp_path / "run") == ["8"]


class WatchedSlurm:
    """A stand-in for Slurm, and the watch that checks it while a made clock advances.

    Slurm's commands succeed at once while their files exist.
    """

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.told: list[str] = []
        self.controller, self.accounting = run / "controller", run / "accounting"
        self.controller.write_text(f"7{RUNS}{run}/logs\n8{RUNS}/elsewhere\n")
        squeue, sacct = (str(self.controller),), (str(self.accounting),)
        monkeypatch.setattr(client, "SQUEUE", squeue)
        monkeypatch.setattr(outages, "PROBES", {"slurmctld": squeue, "accounting": sacct})
        monkeypatch.setattr(outages.subprocess, "Popen", self._answer)
        self.watch = SlurmWatch(run, self.told.append)

    @staticmethod
    def _answer(command: Sequence[str], *, stdout: IO[bytes], **_: object) -> SimpleNamespace:
        file = Path(*command)
        answers = file.exists()
        if answers:
            stdout.write(file.read_bytes())
        end = {"kill": lambda: None, "wait": lambda: None}
        return SimpleNamespace(poll=lambda: 0 if answers else 1, **end)

    def advance(self, seconds: float, **state: bool) -> None:
        state = {"begun": False, "finished": False} | state
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += 5.0
            self.watch.check(self.now_s, **state)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedSlurm]:
    watched = WatchedSlurm(tmp_path, monkeypatch)
    yield watched
    watched.watch.close()


def test_jobs_and_why_they_wait_are_remembered(slurm):
    running = slurm.controller.read_text()
    slurm.controller.write_text(running.replace(RUNS, "|PD|2026-11-24T03:00:00|Priority|"))
    slurm.advance(30)
    assert slurm.watch.pending.line.endswith("(Priority), expected to start 2026-11-24 03:00:00")
    slurm.controller.write_text(running)
    slurm.advance(30)
    assert slurm.watch.pending is None
    slurm.controller.unlink()
    slurm.advance(30)
    assert slurm.watch.jobs == {"7": None}


@pytest.mark.parametrize(
    ("listed", "facts"),
    [
        ("PD|N/A|Resources", ["(Resources)"]),
        ("PD|N/A|None", []),
        ("PD|N/A|ReqNodeNotAvail, UnavailableNodes:n[1-3]", ["UnavailableNodes:n[1-3]"]),
        ("PD|2026-11-24T03:00:00|a reason of a plugin: x|y", ["x|y", "2026-11-24 03:00:00"]),
    ],
)
def test_reason_and_start_are_shown_as_far_as_slurm_knows_them(tmp_path, listed, facts):
    (tmp_path / "lustre" / "r").mkdir(parents=True)
    (tmp_path / "scratch").symlink_to("lustre")
    line = f"7|{listed}|{tmp_path}/lustre/r/a|b\n8{RUNS}{tmp_path}/lustre/r-2\n"
    (pending,) = parse.jobs_in_folder(tmp_path / "scratch" / "r", line).values()
    why = pending.line
    assert "waits" in why
    assert all(fact in why for fact in facts)
    assert not {"None", "N/A"} & set(why.replace("(", " ").replace(")", " ").split())


def test_a_minute_of_silence_is_told_once_and_so_is_its_end(slurm):
    slurm.advance(30)
    text = slurm.controller.read_text()
    slurm.controller.unlink()
    slurm.advance(120)
    (line,) = slurm.told
    assert line.startswith("slurmctld has not answered for ")
    slurm.controller.write_text(text)
    slurm.advance(60)
    assert slurm.told[1:] == ["slurmctld answers again"]


@pytest.mark.parametrize(
    ("silent", "waited_s", "finished", "reason"),
    [
        ("accounting", 570, False, r"accounting has not answered for 6\d\d s"),
        # A finished block is not waited for.
        ("controller", 30, True, r"slurmctld has not answered for [67]\d s"),
    ],
)
def test_a_long_silence_ends_the_session(slurm, silent, waited_s, finished, reason):
    slurm.advance(3000)
    assert slurm.told == []  # accounting never answered: a site may have none
    slurm.accounting.touch()
    slurm.advance(30)
    getattr(slurm, silent).unlink()
    slurm.advance(waited_s, finished=finished)
    with pytest.raises(SilentError, match=reason):
        slurm.advance(60, finished=finished)


def lose_job(slurm: WatchedSlurm) -> None:
    """A crash of slurmctld before it had saved the job."""
    slurm.controller.write_text(f"8{RUNS}/elsewhere\n")


@pytest.mark.parametrize(
    ("seen_s", "waited_s", "state", "gone"),
    [
        (300, 60, {}, r"[67]\d"),
        (300, 590, {"reading": True}, r"6\d\d"),  # ReFrame may read its outputs for ten minutes
        (0, 50, {"begun": True}, r"[67]\d"),  # never seen in the queue
    ],
)
def test_a_job_that_slurm_lost_is_not_waited_for(slurm, seen_s, waited_s, state, gone):
    slurm.advance(seen_s)
    lose_job(slurm)
    slurm.advance(waited_s, **state)
    with pytest.raises(LostJobError, match=rf"not been in the queue for {gone} s"):
        slurm.advance(60, **state)


def test_a_job_that_is_queued_again_or_of_the_next_block_is_not_lost(slurm):
    text = slurm.controller.read_text()
    slurm.advance(30)
    for _ in range(3):
        lose_job(slurm)
        slurm.advance(50)
        slurm.controller.write_text(text)
        slurm.advance(50)
    lose_job(slurm)
    slurm.watch.next_block()  # it may be compiled for long
    slurm.advance(600)


def test_while_accounting_is_away_reframe_may_wait(slurm):
    slurm.accounting.touch()
    slurm.advance(30)
    slurm.accounting.unlink()
    slurm.advance(100)
    lose_job(slurm)
    slurm.advance(300)
    slurm.accounting.touch()
    with pytest.raises(LostJobError):
        slurm.advance(60)


def test_a_probe_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    hanging = ("sleep", "300")
    monkeypatch.setattr(outages, "PROBES", {"slurmctld": hanging})
    watch = SlurmWatch(tmp_path, lambda _: None)
    began_s = time.monotonic()
    for now_s in (0.0, 30.0, 61.0):
        watch.check(now_s, begun=True, finished=False)
    (probe,) = watch.probes
    assert probe.process.wait(120) == -9
    assert time.monotonic() - began_s < 120
    watch.check(62.0, begun=True, finished=False)  # gathers it
    watch.check(100.0, begun=True, finished=False)
    child = probe.process
    watch.close()
    assert (child.returncode, probe.output.closed) == (-9, True)
