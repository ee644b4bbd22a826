"""How ReFrame submits the jobs of checks, and learns their states."""

from __future__ import annotations

import os
from typing import Any

import reframe as rfm

from records.slurm import options
from reframe_tests import internals


def needs_overlap(launcher: Any) -> bool:
    """Return whether an application's step must say that it shares CPUs, as agents' steps do.

    Before Slurm 22.05, a step that does not would wait until those of the agents have ended.
    ReFrame asks `srun` for its version.
    """
    return not getattr(launcher, "use_cpus_per_task", True)


def submit_as_written(check: rfm.RegressionTest) -> None:
    """Let a check's job be submitted without the variables that would override its script.

    The session keeps these variables, since its checks of other partitions may need those of its
    own job. It drops the variables that would hide the job from it. If ReFrame reads the job's
    state from the queue, the job has ended only if slurmctld says so.
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
            # In the job, commands of Slurm would ask the accounting for the cluster's address.
            names.append(options.CLUSTER_VARIABLE)
        with options.environment_without(names):
            submit()

    job.submit = submit_without_variables
