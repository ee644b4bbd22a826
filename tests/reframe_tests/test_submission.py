"""Tests of how a ReFrame session submits the jobs of its checks and learns how the jobs end."""

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.schedulers import slurm
from reframe.core.schedulers.local import LocalJobScheduler
from reframe.core.schedulers.slurm import SlurmJobScheduler, SqueueJobScheduler
from reframe.utility import osext

from reframe_tests import internals
from reframe_tests.submission import submit_as_written
from tests.nimc.checkouts import program


@pytest.mark.parametrize(
    ("access", "kept"),
    [(["--partition=debug"], ["SLURM_CLUSTERS", "SLURM_CONF"]), (["-M wice"], ["SLURM_CONF"])],
)
def test_a_job_does_not_inherit_the_slurm_variables_of_the_shell(
    monkeypatch: pytest.MonkeyPatch, access: list[str], kept: list[str]
) -> None:
    """The session itself keeps these variables, even if Slurm refuses the job.

    ReFrame adds `-M` to the options if its setting `slurm_multi_cluster_mode` is on.
    """
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "100")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    monkeypatch.setenv("SLURM_CLUSTERS", "wice")
    monkeypatch.setenv("SQUEUE_PARTITION", "debug")
    submitted: list[list[str]] = []

    def refuse() -> None:
        submitted.append(sorted(name for name in os.environ if name.startswith("SLURM_")))
        raise RuntimeError("sbatch: error: Invalid account")

    scheduler = SimpleNamespace(registered_name="slurm")
    job = SimpleNamespace(submit=refuse, scheduler=scheduler, sched_access=access)
    check: Any = SimpleNamespace(job=job)
    submit_as_written(check)
    with pytest.raises(RuntimeError):
        check.job.submit()
    assert submitted == [kept]
    assert os.environ["SLURM_CLUSTERS"] == "wice"
    assert os.environ["SLURM_MEM_PER_CPU"] == "100"
    # With this variable, squeue might not list the job to ReFrame.
    assert "SQUEUE_PARTITION" not in os.environ


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A running job of the scheduler that ReFrame has for clusters without accounting."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    # The code under test replaces this method, and monkeypatch restores it after the test.
    monkeypatch.setattr(SqueueJobScheduler, "poll", SqueueJobScheduler.poll)
    scheduler: Any = SqueueJobScheduler.__new__(SqueueJobScheduler)
    vars(scheduler).update(_squeue="squeue", _multi_clusters=[], _cancel_reasons=[])
    job = scheduler.make_job("check")
    vars(job).update(_jobid="7", _state="RUNNING", _submit_time=0.0, _scheduler=scheduler)
    internals.confirm_ends.cache_clear()
    submit_as_written(SimpleNamespace(job=job))  # type: ignore[arg-type]
    return job


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        # squeue prints `slurm_load_jobs error` and the reason, and ends with status 1 (squeue.c).
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "RUNNING"),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "COMPLETED"),
        ("exit 0", "COMPLETED"),
        # slurmctld does not answer the first question, but it answers the second question.
        ("[ -e asked ] && exec echo 7; : >asked; exit 1", "RUNNING"),
    ],
)
def test_a_job_has_ended_only_if_slurm_answers_without_it(
    job: Any, answer: str, state: str, tmp_path: Path
) -> None:
    program(tmp_path, "squeue", f"cd {tmp_path}; {answer}")
    program(tmp_path, "scontrol", 'echo "$3"')
    job.scheduler.poll(job)
    assert job.state == state
    assert internals.node_names(job) == []


@pytest.mark.parametrize(
    ("expression", "nodes"),
    [("n1", ["n1"]), (None, []), ("", []), ("None assigned", []), ("None assigned,None", [])],
)
def test_a_job_that_never_began_has_no_names_of_nodes(
    job: Any, expression: str | None, nodes: list[str], tmp_path: Path
) -> None:
    """sacct shows `None assigned` as the nodes of a job that never began."""
    program(tmp_path, "scontrol", 'shift 2; printf "%s\\n" "$@"')
    vars(job).update(_state="COMPLETED", _nodespec=expression)
    assert internals.node_names(job) == nodes
    assert internals.node_names(SimpleNamespace(nodelist=["this"])) == ["this"]


@pytest.mark.parametrize(
    ("rows", "state", "has_ended"),
    [
        # `sacct -P` prints these rows. The first text has a job and one of its steps. The second
        # text has a job whose second component ended with the first component.
        ("7|PREEMPTED|0:0|1764626000|n1\n7.batch|CANCELLED|0:15|1764626000|n1", "PREEMPTED", True),
        (
            "7+0|PREEMPTED|0:0|1764626000|n1\n7+1|CANCELLED by 0|0:0|1764626000|n2",
            "PREEMPTED,CANCELLED",
            True,
        ),
        ("7+0|PREEMPTED|0:0|1764626000|n1\n7+1|RUNNING|0:0|Unknown|n2", "PREEMPTED,RUNNING", False),
        ("7|SUSPENDED|0:0|Unknown|n1", "SUSPENDED", False),
    ],
)
def test_a_preempted_job_has_ended(
    rows: str, state: str, has_ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nimc submits jobs with `--no-requeue`, so Slurm does not start a preempted job again.

    Unchanged, ReFrame would wait for another start of the job.
    """
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in ("slurm_state_completed", "slurm_state_pending"):
        # The code under test replaces this function, and monkeypatch restores it after the test.
        monkeypatch.setattr(slurm, name, getattr(slurm, name))
    monkeypatch.setattr(slurm.rt, "temp_environment", lambda **_: nullcontext())
    scheduler: Any = SlurmJobScheduler.__new__(SlurmJobScheduler)
    vars(scheduler).update(_sacct="sacct", _update_state_count=0, _cancel_reasons=[])
    vars(scheduler).update(_pending_job_reason_poll_freq=10, _multi_clusters=[])
    job = scheduler.make_job("check")
    vars(job).update(_jobid="7", _submit_time=0.0, _scheduler=scheduler)
    internals.end_preempted_jobs.cache_clear()
    submit_as_written(SimpleNamespace(job=job))  # type: ignore[arg-type]
    program(tmp_path, "sacct", f"cat <<'END'\nJobID|State|ExitCode|End|NodeList\n{rows}\nEND")
    scheduler.poll(job)
    assert (job.state, scheduler.finished(job)) == (state, has_ended)


def test_a_script_runs_in_a_folder_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ReFrame compiles by a script on this host, and runs the jobs of one host in the same way."""
    folder = tmp_path / "user's results"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(osext, "run_command_async", osext.run_command_async)
    scheduler: Any = LocalJobScheduler.__new__(LocalJobScheduler)
    monkeypatch.setattr(LocalJobScheduler, "get_option", lambda *_: False)
    monkeypatch.setattr(LocalJobScheduler, "log", lambda *_: None)
    internals.start_scripts_with_blanks.cache_clear()
    internals.start_scripts_with_blanks()
    job = scheduler.make_job("check", script_filename="build.sh", stdout="out", stderr="err")
    program(folder, "build.sh", "echo compiled")
    scheduler.submit(job)
    assert os.waitpid(int(job.jobid), 0)[1] == 0
    assert (folder / "out").read_text() == "compiled\n"
    # A command is still split into words.
    assert osext.run_command_async("echo 'a b' c").communicate()[0] == "a b c\n"
