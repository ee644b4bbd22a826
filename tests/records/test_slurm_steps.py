"""How programs that started job steps are stopped, with stand-ins for Slurm's commands.

In a heterogeneous job, an `srun` that is ended by a signal may cancel the whole job. So scancel
sends the signal to the tasks of its step instead.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from records import processes
from records.slurm import steps
from tests.reframe_tests.reframe_call import script
from tests.waiting import wait_until

#: The value in <linux/prctl.h>.
PR_SET_CHILD_SUBREAPER = 36
#: An `srun` that writes the signals that it gets to a file. It ends when another file shows that
#: its tasks have ended.
SRUN = """
for name in TERM INT HUP; do trap "echo $name >>'{folder}/signals'" $name; done
echo $$ >'{folder}/pid'
until [ -e '{folder}/tasks-ended' ]; do sleep 0.02; done
exit 143
"""
#: Each component of the job has a step of this `srun`, and a step of an `srun` on another host.
SCONTROL = """
echo "$@" >>'{folder}/shown'
job=$4
echo "StepId=$job.batch State=RUNNING SrunHost:Pid=(null):0"
echo "StepId=$job.3 State=RUNNING SrunHost:Pid={host}:$(cat '{folder}/pid')"
echo "StepId=$job.4 State=RUNNING SrunHost:Pid=elsewhere:$(cat '{folder}/pid')"
"""
SCANCEL = """
echo "$@" >>'{folder}/cancelled'
[ "$1" = --signal={fatal} ] && : >'{folder}/tasks-ended'
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
    return tmp_path


@pytest.fixture
def adopted_orphans() -> Iterator[None]:
    """Makes orphans children of this process, as in agents and conductors."""
    processes.become_subreaper()
    yield
    processes.LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def write_commands(folder: Path, fatal: str = "TERM") -> None:
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("scancel", SCANCEL)):
        values = {"folder": folder, "host": socket.gethostname(), "fatal": fatal}
        script(folder / "bin" / name, text.format(**values))


def use_heterogeneous_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID_HET_GROUP_0", "7")
    monkeypatch.setenv("SLURM_JOB_ID_HET_GROUP_1", "8")


def status_after_stop(folder: Path, *command: str) -> int:
    """Start a command, wait until its `srun` runs, and stop it."""

    async def stopped() -> int:
        process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
        await asyncio.to_thread(wait_until, (folder / "pid").exists)
        await asyncio.sleep(0.1)  # the script that started srun may end in this time
        return await steps.stop(process)

    return asyncio.run(stopped())


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_tasks_of_all_components_get_the_signal_and_srun_does_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_commands(folder)
    use_heterogeneous_job(monkeypatch)
    began_s = time.monotonic()
    assert status_after_stop(folder, "srun") == 143
    assert time.monotonic() - began_s < processes.GRACE_S, "it ends as soon as its srun has ended"
    assert lines(folder / "shown") == [f"--oneliner show step {job}" for job in (7, 8)]
    assert lines(folder / "cancelled") == ["--signal=TERM 7.3 8.3"]
    assert not lines(folder / "signals")


def test_slurm_is_asked_once_about_all_programs_that_are_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_commands(folder)
    use_heterogeneous_job(monkeypatch)

    async def stopped() -> list[int]:
        commands = [["sleep", "300"], ["srun"], ["sleep", "300"]]
        running = [
            await asyncio.create_subprocess_exec(*command, start_new_session=True)
            for command in commands
        ]
        await asyncio.to_thread(wait_until, (folder / "pid").exists)
        return await steps.stop_all(running)

    assert asyncio.run(stopped()) == [-signal.SIGTERM, 143, -signal.SIGTERM]
    assert lines(folder / "shown") == [f"--oneliner show step {job}" for job in (7, 8)]
    assert lines(folder / "cancelled") == ["--signal=TERM 7.3 8.3"]


def test_tasks_of_an_srun_that_a_script_started_get_the_signal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_commands(folder)
    use_heterogeneous_job(monkeypatch)
    # After the end of its srun, the script gets SIGTERM, unless it ends first.
    assert status_after_stop(folder, "sh", "-c", "srun; exit 5") in (5, -signal.SIGTERM)
    assert lines(folder / "cancelled") == ["--signal=TERM 7.3 8.3"]
    assert not lines(folder / "signals")


@pytest.mark.usefixtures("adopted_orphans")
def test_tasks_of_an_srun_whose_script_has_ended_get_the_signal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_commands(folder)
    use_heterogeneous_job(monkeypatch)
    script_text = f"srun & while [ ! -e '{folder}/pid' ]; do sleep 0.02; done; exit 5"
    assert status_after_stop(folder, "sh", "-c", script_text) == 5
    assert lines(folder / "cancelled") == ["--signal=TERM 7.3 8.3"]
    assert not lines(folder / "signals")


def test_tasks_that_outlive_sigterm_are_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.5)
    write_commands(folder, fatal="KILL")
    use_heterogeneous_job(monkeypatch)
    assert status_after_stop(folder, "srun") == 143
    assert lines(folder / "cancelled") == ["--signal=TERM 7.3 8.3", "--signal=KILL 7.3 8.3"]
    assert not lines(folder / "signals")


@pytest.mark.parametrize("hanging", ["scontrol", "scancel"])
def test_a_command_of_slurm_that_hangs_delays_the_end_by_its_time_limit_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, hanging: str
) -> None:
    """After that, `srun` gets the signals. The stand-in would hang for five minutes."""
    monkeypatch.setattr(processes, "GRACE_S", 0.3)
    monkeypatch.setattr(steps, "ANSWER_TIMEOUT_S", 0.3)
    write_commands(folder)
    script(folder / "bin" / hanging, f"echo >>'{folder}/hung'; exec sleep 300")
    use_heterogeneous_job(monkeypatch)
    began_s = time.monotonic()
    assert status_after_stop(folder, "srun") == -signal.SIGKILL
    # Each of two signals takes at most three commands and a time of grace. Then `srun` has two
    # times of grace. 20 s more are allowed on a busy host.
    assert time.monotonic() - began_s < 2 * (3 + 1) * 0.3 + 2 * 0.3 + 20
    assert lines(folder / "signals") == ["TERM"]
    assert len(lines(folder / "hung")) == (4 if hanging == "scontrol" else 2)


def test_in_other_jobs_srun_gets_sigterm_and_slurm_kills_the_tasks_that_outlive_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.5)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    write_commands(folder, fatal="KILL")
    assert status_after_stop(folder, "srun") == 143
    assert lines(folder / "signals") == ["TERM"]
    assert lines(folder / "cancelled") == ["--signal=KILL 7.3"]


def test_outside_a_job_srun_gets_the_signals(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.5)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    write_commands(folder)
    assert status_after_stop(folder, "srun") == -signal.SIGKILL
    assert lines(folder / "signals") == ["TERM"]
    assert not lines(folder / "cancelled")


def test_slurm_is_not_asked_about_programs_without_a_srun(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_commands(folder)
    (folder / "pid").touch()
    use_heterogeneous_job(monkeypatch)
    assert status_after_stop(folder, "sleep", "300") == -signal.SIGTERM
    assert not lines(folder / "shown")
