"""How ReFrame submits the jobs of checks."""

from __future__ import annotations

import os

import reframe as rfm

from records.slurm import options


def submit_as_written(check: rfm.RegressionTest) -> None:
    """Let a check's job be submitted without the variables that would override its script.

    A session may submit jobs to several partitions. Each job has its own such variables.
    """
    job, submit = check.job, check.job.submit
    has_time_limit = bool(check.time_limit or check.current_partition.time_limit)
    overriding = options.overriding_variables(
        job.sched_access, os.environ, has_time_limit=has_time_limit
    )

    def submit_without_variables() -> None:
        with options.environment_without(overriding):
            submit()

    job.submit = submit_without_variables
