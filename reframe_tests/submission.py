"""How ReFrame submits the jobs of checks, and learns their states."""

from __future__ import annotations

import os
from typing import Any

import reframe as rfm

from records.slurm import options
from reframe_tests import internals


def needs_overlap(launcher: Any) -> bool:
    """Return whether the application's job step needs an option to share CPUs with other steps.

    The other steps run the agents, which start the writers, and share their CPUs too. Before Slurm
    22.05, an application's step without this option would wait until the agents' steps have ended.
    ReFrame's launcher knows the version of `srun`.
    """
    return not getattr(launcher, "use_cpus_per_task", True)


def submit_as_written(check: rfm.RegressionTest) -> None:
    """Let a check's job be submitted without the variables that would override its script.

    ReFrame's session keeps these variables: if it runs in a job, checks of other partitions may
    need the variables of that job. It drops the variables that would hide the check's job from it.
    If ReFrame reads the job's state from the queue, it regards the job as ended only if slurmctld
    says so.
    """
    for name in options.filtering_variables(os.environ):
        del os.environ[name]
    job, submit = check.job, check.job.submit
    if job.scheduler.registered_name in options.SCHEDULERS:
        internals.end_preempted_jobs()
    if job.scheduler.registered_name == options.SQUEUE_SCHEDULER:
        scheduler_class: Any = type(job.scheduler)
        internals.confirm_ends(scheduler_class)

    def submit_without_variables() -> None:
        names = options.overriding_variables(os.environ)
        if options.option_values(job.sched_access, "clusters", "M"):
            # With this variable, Slurm's commands in the job would ask the accounting for the
            # cluster's address.
            names.append(options.CLUSTER_VARIABLE)
        with options.environment_without(names):
            submit()

    job.submit = submit_without_variables
