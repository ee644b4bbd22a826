"""How ReFrame submits the jobs of checks, and learns their states."""

from __future__ import annotations

import os

import reframe as rfm

from records.slurm import options
from reframe_tests import internals


def submit_as_written(check: rfm.RegressionTest) -> None:
    """Let a check's job be submitted without the variables that would override its script.

    The session keeps them: its checks of other partitions may need those of its own job. A job
    whose state the queue tells ends only if the queue says so.
    """
    job, submit = check.job, check.job.submit
    if job.scheduler.registered_name == options.SQUEUE_SCHEDULER:
        internals.confirm_ends(type(job.scheduler))

    def submit_without_variables() -> None:
        with options.environment_without(options.overriding_variables(os.environ)):
            submit()

    job.submit = submit_without_variables
