"""Jobs of a dead ReFrame are cancelled, and Slurm is watched: it may not answer, or lose jobs."""

import json
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
#: The part of a line of squeue between the id of a running job and its folder.
RUNS = "|R|2026-11-23T20:00:00|None|"


class RefusingSlurm:
    """A stand-in for Slurm with a listing for each call of squeue. It refuses to cancel jobs."""

    def __init__(self, *listings: str) -> None:
        self.listings = [*listings]
        self.cancellations: list[list[str]] = []

    def ask(self, command: Sequence[str], *_: object, **__: str) -> ProgramAnswer:
        if command == client.JOBS_COMMAND:
            return ProgramAnswer("squeue", 0, self.listings.pop(0), "")
        self.cancellations.append([*command])
        return ProgramAnswer("scancel", 1, "", "Operation not permitted")


def test_a_heterogeneous_job_that_is_just_ending_is_cancelled_as_a_whole(tmp_path, monkeypatch):
    components = f"2+0{RUNS}{tmp_path}/a\n2+1{RUNS}{tmp_path}/a\n"
    slurm = RefusingSlurm(f"{components}5{RUNS}{tmp_path}/b\n", f"2+1{RUNS}{tmp_path}/a\n", "")
    monkeypatch.setattr(client, "ask", slurm.ask)
    assert client.cancel_jobs(tmp_path) == ["2", "5"]
    assert slurm.cancellations == [["scancel", "2", "5"]]


def test_a_job_that_does_not_end_is_named_with_slurms_refusal(tmp_path, monkeypatch):
    slurm = RefusingSlurm(*[f"5{RUNS}{tmp_path}/b\n"] * 3)
    monkeypatch.setattr(client, "ask", slurm.ask)
    monkeypatch.setattr(client, "END_TIMEOUT_S", -1.0)
    with pytest.raises(MachineError, match=r": \['5'\]: scancel: .*Operation not permitted$"):
        client.cancel_jobs(tmp_path)


def test_a_run_that_was_stopped_has_time_to_cancel_its_jobs_however_slow_slurm_is(
    tmp_path, monkeypatch
):
    """Here each command takes a minute, the longest time that it may take, and no job ends."""
    clock_s = [0.0]

    def pass_time(seconds: float) -> None:
        clock_s[0] += seconds

    class SlowSlurm(RefusingSlurm):
        def ask(self, command: Sequence[str], *words: object, **more: str) -> ProgramAnswer:
            pass_time(60.0)
            return super().ask(command, *words, **more)

    slurm = SlowSlurm(*[f"5{RUNS}{tmp_path}/b\n"] * 9)
    made_time = SimpleNamespace(monotonic=lambda: clock_s[0], sleep=pass_time)
    monkeypatch.setattr(client, "time", made_time)
    monkeypatch.setattr(client, "ask", slurm.ask)
    with pytest.raises(MachineError):
        client.cancel_jobs(tmp_path)
    # Before that, ReFrame has 30 s, and the other processes of the block have 15 s.
    assert 30.0 + 15.0 + clock_s[0] <= sessions.CLEAN_UP_S
    assert clock_s[0] > 240.0


@pytest.mark.parametrize("still_running", ["", "2+1"])
def test_a_job_whose_epilog_takes_minutes_has_ended(tmp_path, monkeypatch, still_running):
    """While an epilog runs, squeue shows the state `CG`. slurmd has killed all processes by then.

    If another component of the heterogeneous job still runs, the job has not ended.
    """
    epilogs = f"2+0{RUNS}{tmp_path}/a\n2+1{RUNS}{tmp_path}/a\n".replace("|R|", "|CG|")
    if still_running:
        epilogs = epilogs.replace(f"{still_running}|CG", f"{still_running}|R")
    monkeypatch.setattr(client, "ask", RefusingSlurm(*[epilogs] * 3).ask)
    monkeypatch.setattr(client, "END_TIMEOUT_S", -1.0)
    if still_running:
        with pytest.raises(MachineError, match=r": \['2'\]"):
            client.cancel_jobs(tmp_path)
    else:
        assert client.cancel_jobs(tmp_path) == ["2"]


def runner_in(run: Path, interrupts: Interrupts, *, uses_slurm: bool = False) -> CampaignRunner:
    """Return a runner of the campaign in the folder of a run."""
    (run / "run.json").write_text("{}")
    request = made_request(Campaign.model_validate(CAMPAIGN), MACHINE, uses_slurm=uses_slurm)
    return CampaignRunner(
        request=request,
        run=run,
        reframe="reframe",
        seed=1,
        interrupts=interrupts,
        display=Display(),
    )


#: ReFrame's report of a job that exceeds a limit of a QOS with the flag DenyOnLimit.
DENIED = """spawned process error: command 'sbatch rfm_job.sh' failed with exit code 1:
--- stderr ---
sbatch: error: QOSMaxWallDurationPerJobLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, \
user's size and/or time limits)
--- stderr ---"""


def test_a_limit_for_which_slurm_refuses_a_job_is_named_with_what_to_do(tmp_path, monkeypatch):
    def session(_command: Sequence[str], _run: Path, log: Path, *_: object) -> int:
        case = {"jobid": None, "result": "fail", "fail_phase": "run", "fail_reason": DENIED}
        (log.parent / "reframe.json").write_text(json.dumps({"runs": [{"testcases": [case]}]}))
        return 1

    monkeypatch.setattr(runner, "run_session", session)
    with Interrupts() as interrupts, closing(runner_in(tmp_path, interrupts)) as work:
        reason = work.run_all()[0].reason
    assert reason.startswith("Slurm refuses the job: QOSMaxWallDurationPerJobLimit; ")
    assert reason.endswith(": lower time_limit in configs/")


@pytest.mark.parametrize(("uses_slurm", "cancellations"), [(True, 1), (False, 0)])
@pytest.mark.parametrize("cause", ["killed", "stopped"])
def test_jobs_of_a_dead_reframe_are_cancelled_if_slurm_runs_them(
    tmp_path, monkeypatch, uses_slurm, cancellations, cause
):
    """They are cancelled even if jobs share nodes."""

    def session(*_: object) -> int:
        if cause == "stopped":
            raise Stopped(signal.SIGTERM)
        return -signal.SIGKILL

    cancelled: list[Path] = []
    monkeypatch.setattr(outages, "PROBES", {})
    monkeypatch.setattr(runner, "run_session", session)
    monkeypatch.setattr(client, "cancel_jobs", cancelled.append)
    with (
        Interrupts() as interrupts,
        closing(runner_in(tmp_path, interrupts, uses_slurm=uses_slurm)) as work,
    ):
        if cause == "stopped":
            with pytest.raises(Stopped):
                work.run_all()
        else:
            assert "SIGKILL" in work.run_all()[0].reason
    assert cancelled == [tmp_path] * cancellations


@pytest.mark.parametrize("uses_slurm", [True, False])
def test_another_run_on_the_same_host_is_shown_and_noted(tmp_path, monkeypatch, capsys, uses_slurm):
    """It is not noted for jobs, which have nodes of their own. The host may have other runs."""
    monkeypatch.setattr(outages, "PROBES", {})
    monkeypatch.setattr(runner, "run_session", lambda *_: -signal.SIGKILL)
    monkeypatch.setattr(client, "cancel_jobs", lambda _: None)
    environment = {**os.environ, sessions.RUN_VARIABLE: "/results/quick-localhost-1"}
    with Interrupts() as interrupts, subprocess.Popen(["sleep", "300"], env=environment) as other:
        with closing(runner_in(tmp_path, interrupts, uses_slurm=uses_slurm)) as work:
            work.run_all()
        other.kill()
    name = re.compile(r"\bquick-localhost-1\b")
    plan = BlockPlan.load(tmp_path / "logs" / "stream" / "0" / "plan.json")
    lines = [line for line in capsys.readouterr().err.splitlines() if name.search(line)]
    assert bool([note for note in plan.notes if name.search(note)]) != uses_slurm
    assert bool(lines) != uses_slurm


def test_a_signal_ends_the_run_even_if_slurm_does_not_answer_and_jobs_are_named(
    tmp_path, monkeypatch, capsys
):
    def session(*arguments: Any) -> int:
        *_, tick = arguments
        (probe,) = work.slurm_watch.probes  # type: ignore[union-attr]
        if probe.process:  # the first tick has started it
            probe.process.wait(120)
        tick()
        raise Stopped(signal.SIGINT)

    def cancel(_: Path) -> None:
        raise MachineError("squeue: Unable to contact slurm controller")

    squeue = ("echo", f"7{RUNS}{tmp_path}/logs")
    monkeypatch.setattr(client, "JOBS_COMMAND", squeue)
    monkeypatch.setattr(outages, "PROBES", {"slurmctld": squeue})
    monkeypatch.setattr(runner, "run_session", session)
    monkeypatch.setattr(client, "cancel_jobs", cancel)
    with Interrupts() as interrupts:
        work = runner_in(tmp_path, interrupts, uses_slurm=True)
        with closing(work), pytest.raises(Stopped):
            work.run_all()
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line.startswith("nimc: squeue: Unable to contact slurm controller; ")
    assert last_line.endswith(": scancel 7")


def test_a_folder_in_another_encoding_hides_no_job(tmp_path, monkeypatch):
    listing = f"7{RUNS}/old/caf\\351\\n8{RUNS}{tmp_path}/run\\n"
    program(tmp_path, "squeue", f"printf '{listing}'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert client.remaining_jobs(tmp_path / "run") == ["8"]


#: Stand-ins that behave as the manuals of squeue and scancel say, for a pending job of the hidden
#: partition `h`.
FILTERED_SQUEUE = """
cd '{folder}'
case " $* " in *" --all "* | *" --jobs=7 "*) ;; *) exit ;; esac
[ "${{SQUEUE_PARTITION-h}}${{SQUEUE_STATES-PD}}" = hPD ] && [ ! -e cancelled ] || exit 0
start=2026-11-24T03:00:00
[ "$SLURM_TIME_FORMAT" = relative ] && start='Tomorr 03:00'
echo "7|PD|$start|Priority|$PWD"
"""
FILTERED_SCANCEL = "[ \"${{SCANCEL_STATE-PENDING}}\" != PENDING ] || : >'{folder}/cancelled'"


@pytest.fixture
def filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets up stand-ins for Slurm's commands, and variables of the user that hide a pending job."""
    program(tmp_path, "squeue", FILTERED_SQUEUE.format(folder=tmp_path))
    program(tmp_path, "scancel", FILTERED_SCANCEL.format(folder=tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SQUEUE_PARTITION", "run")
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    monkeypatch.setenv("SCANCEL_STATE", "RUNNING")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")


@pytest.mark.usefixtures("filters")
def test_variables_of_the_user_do_not_hide_a_job(tmp_path, monkeypatch):
    probe = outages.Probe(name="squeue", command=client.JOBS_COMMAND)
    with closing(probe):
        assert probe.ask(0.0) is None
        assert probe.process
        probe.process.wait()
        jobs = parse.jobs_in_folder(tmp_path, probe.ask(1.0) or "")
    assert jobs == {"7": parse.PendingJob("Priority", "2026-11-24 03:00:00")}
    assert not client.has_ended("7")
    monkeypatch.setattr(client, "END_TIMEOUT_S", -1.0)
    assert client.cancel_jobs(tmp_path) == ["7"]


class WatchedSlurm:
    """A stand-in for Slurm, and the watch that checks it while a made clock advances.

    Slurm's commands succeed at once while their files exist; squeue prints its file.
    """

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.told: list[str] = []
        self.controller, self.accounting = run / "controller", run / "accounting"
        self.listing = f"7{RUNS}{run}/logs\n8{RUNS}/elsewhere\n"
        self.controller.write_text(self.listing)
        squeue, sacct = (str(self.controller),), (str(self.accounting),)
        monkeypatch.setattr(client, "JOBS_COMMAND", squeue)
        monkeypatch.setattr(outages, "PROBES", {"slurmctld": squeue, "accounting": sacct})
        monkeypatch.setattr(outages.subprocess, "Popen", self._start)
        self.watch = SlurmWatch(run, self.told.append)

    @staticmethod
    def _start(command: Sequence[str], *, stdout: IO[bytes], **_: object) -> SimpleNamespace:
        """Return a stand-in for a command that has already ended."""
        file = Path(*command)
        if file.exists():
            stdout.write(file.read_bytes())
        status = 0 if file.exists() else 1
        return SimpleNamespace(poll=lambda: status, kill=lambda: None, wait=lambda: None)

    def advance(
        self, seconds: float, *, begun: bool = False, finished: bool = False, reading: bool = False
    ) -> None:
        """Let time pass, while the block is in this state."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += 5.0
            self.watch.check(self.now_s, begun=begun, finished=finished, reading=reading)

    def lose_job(self) -> None:
        """Let slurmctld crash before it has saved the job."""
        self.controller.write_text(f"8{RUNS}/elsewhere\n")

    def list_job(self) -> None:
        """Let squeue list the job as running."""
        self.controller.write_text(self.listing)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedSlurm]:
    watched = WatchedSlurm(tmp_path, monkeypatch)
    yield watched
    watched.watch.close()


def test_the_reason_why_a_job_waits_is_known_until_it_runs(slurm):
    pending = slurm.listing.replace(RUNS, "|PD|2026-11-24T03:00:00|Priority|")
    slurm.controller.write_text(pending)
    slurm.advance(30)
    assert "(Priority)" in slurm.watch.pending.line
    assert slurm.watch.pending.line.endswith(" 2026-11-24 03:00:00")
    slurm.list_job()
    slurm.advance(30)
    assert slurm.watch.pending is None


def test_jobs_are_remembered_while_slurm_does_not_answer(slurm):
    slurm.advance(30)
    slurm.controller.unlink()
    slurm.advance(30)
    assert slurm.watch.jobs == {"7": None}


@pytest.mark.parametrize(
    ("state_start_reason", "shown"),
    [
        ("PD|N/A|Resources", ["(Resources)"]),
        ("PD|N/A|None", []),
        ("PD|N/A|ReqNodeNotAvail, UnavailableNodes:n[1-3]", ["UnavailableNodes:n[1-3]"]),
        ("PD|2026-11-24T03:00:00|a reason of a plugin: x|y", ["x|y", "2026-11-24 03:00:00"]),
    ],
)
def test_reason_and_start_of_a_job_are_shown_if_slurm_knows_them(
    tmp_path, state_start_reason, shown
):
    """The path of the job's folder has a link and a `|`."""
    (tmp_path / "lustre" / "r").mkdir(parents=True)
    (tmp_path / "scratch").symlink_to("lustre")
    listing = f"7|{state_start_reason}|{tmp_path}/lustre/r/a|b\n8{RUNS}{tmp_path}/lustre/r-2\n"
    (pending,) = parse.jobs_in_folder(tmp_path / "scratch" / "r", listing).values()
    assert all(text in pending.line for text in shown)
    assert not re.search(r"\bNone\b|N/A", pending.line)


def test_a_minute_of_silence_and_its_end_are_each_printed_once(slurm):
    slurm.advance(30)
    slurm.controller.unlink()
    slurm.advance(120)
    (silence,) = slurm.told
    assert silence.startswith("slurmctld ")
    slurm.list_job()
    slurm.advance(60)
    (_, end) = slurm.told
    assert end.startswith("slurmctld ")


def test_a_service_that_never_answered_is_not_watched(slurm):
    """For example, a site may have no accounting."""
    slurm.advance(3000)
    assert slurm.told == []


@pytest.mark.parametrize(
    ("silent", "waited_s", "finished", "message"),
    [
        ("accounting", 570, False, r"^accounting .* 6\d\d s"),
        # For a finished block, slurmctld is waited for only a short time.
        ("controller", 30, True, r"^slurmctld .* [67]\d s"),
    ],
)
def test_a_long_silence_ends_the_session(slurm, silent, waited_s, finished, message):
    slurm.accounting.touch()
    slurm.advance(30)
    getattr(slurm, silent).unlink()
    slurm.advance(waited_s, finished=finished)
    with pytest.raises(SilentError, match=message):
        slurm.advance(60, finished=finished)


@pytest.mark.parametrize(
    ("listed_s", "waited_s", "begun", "reading", "lost_s"),
    [
        (300, 60, False, False, r"[67]\d"),
        (300, 590, False, True, r"6\d\d"),  # ReFrame may read the outputs for ten minutes
        (0, 50, True, False, r"[67]\d"),  # the job was never seen in the queue
    ],
)
def test_a_job_that_slurm_lost_is_not_waited_for(slurm, listed_s, waited_s, begun, reading, lost_s):
    slurm.advance(listed_s)
    slurm.lose_job()
    slurm.advance(waited_s, begun=begun, reading=reading)
    with pytest.raises(LostJobError, match=rf" {lost_s} s"):
        slurm.advance(60, begun=begun, reading=reading)


def test_a_job_that_is_queued_again_is_not_lost(slurm):
    slurm.advance(30)
    for _ in range(3):
        slurm.lose_job()
        slurm.advance(50)
        slurm.list_job()
        slurm.advance(50)


def test_the_job_of_the_next_block_is_not_taken_for_lost_before_it_is_queued(slurm):
    """Compilation before the job may take long."""
    slurm.advance(30)
    slurm.lose_job()
    slurm.watch.next_block()
    slurm.advance(600)


def test_a_job_is_not_taken_for_lost_while_accounting_does_not_answer(slurm):
    slurm.accounting.touch()
    slurm.advance(30)
    slurm.accounting.unlink()
    slurm.advance(100)
    slurm.lose_job()
    slurm.advance(300)
    slurm.accounting.touch()
    with pytest.raises(LostJobError):
        slurm.advance(60)


@pytest.fixture
def hanging_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmWatch:
    """Returns a watch whose command has hung for a minute."""
    monkeypatch.setattr(outages, "PROBES", {"slurmctld": ("sleep", "300")})
    watch = SlurmWatch(tmp_path, lambda _: None)
    for now_s in (0.0, 30.0, 61.0):
        watch.check(now_s, begun=True, finished=False)
    return watch


def test_a_command_that_hangs_is_killed(hanging_watch):
    began_s = time.monotonic()
    (probe,) = hanging_watch.probes
    assert probe.process.wait(120) == -signal.SIGKILL
    assert time.monotonic() - began_s < 120
    hanging_watch.close()


def test_a_command_is_ended_with_its_watch(hanging_watch):
    (probe,) = hanging_watch.probes
    probe.process.wait(120)
    hanging_watch.check(62.0, begun=True, finished=False)  # notices that it has ended
    hanging_watch.check(100.0, begun=True, finished=False)  # starts another command
    process = probe.process
    hanging_watch.close()
    assert (process.returncode, probe.output.closed) == (-signal.SIGKILL, True)
