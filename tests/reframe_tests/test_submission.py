"""How the jobs of a session's checks are submitted."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from reframe_tests.submission import submit_as_written


def test_a_job_is_submitted_without_the_job_of_the_shell_which_the_session_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also after a job that is refused."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "100")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    submitted: list[list[str]] = []

    def refuse() -> None:
        submitted.append([name for name in os.environ if name.startswith("SLURM_")])
        raise RuntimeError("sbatch: error: Invalid account")

    check: Any = SimpleNamespace(job=SimpleNamespace(submit=refuse))
    submit_as_written(check)
    with pytest.raises(RuntimeError):
        check.job.submit()
    assert submitted == [["SLURM_CONF"]]
    assert os.environ["SLURM_MEM_PER_CPU"] == "100"
