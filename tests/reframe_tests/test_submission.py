"""How the jobs of a session's checks are submitted."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from reframe_tests.submission import submit_as_written


def test_each_job_of_a_session_has_the_variables_that_its_partition_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`sbatch` reads the account of a job whose `access` names none from the user's variable."""
    monkeypatch.setenv("SBATCH_ACCOUNT", "proj1")
    accounts: list[str | None] = []

    def check(access: list[str]) -> Any:
        job = SimpleNamespace(
            sched_access=access, submit=lambda: accounts.append(os.environ.get("SBATCH_ACCOUNT"))
        )
        partition = SimpleNamespace(time_limit="1h")
        return SimpleNamespace(job=job, time_limit=None, current_partition=partition)

    checks = [check(["--account=other"]), check(["--partition=gpu"])]
    for session_check in checks:
        submit_as_written(session_check)
    for session_check in checks:
        session_check.job.submit()
    assert accounts == [None, "proj1"]


def test_a_refused_job_takes_no_variables_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "proj1")

    def refuse() -> None:
        raise RuntimeError("sbatch: error: Invalid account")

    check: Any = SimpleNamespace(
        job=SimpleNamespace(sched_access=["-A other"], submit=refuse),
        time_limit="1m",
        current_partition=None,
    )
    submit_as_written(check)
    with pytest.raises(RuntimeError):
        check.job.submit()
    assert os.environ["SBATCH_ACCOUNT"] == "proj1"
