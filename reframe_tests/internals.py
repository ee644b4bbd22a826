"""Access to parts of ReFrame 4.10 that have no public name.

Each function says why it is needed. No other module uses a private name of ReFrame.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType
from typing import Any

import reframe as rfm
from reframe.core.logging import getlogger
from reframe.utility import osext

from records.slurm import client

#: Prefix of the names of attributes that ReFrame adds to a check's class.
ATTRIBUTE_PREFIX = "_rfm_"


def pin_prefix(cls: Any, base: type) -> None:
    """Let a class find its sources next to the file of its base.

    ReFrame's own `pin_prefix` only pins a class to its own file.
    """
    cls._rfm_pinned_prefix = vars(base)["_rfm_prefix"]


def sanity_function(check: rfm.RegressionTest) -> Callable[[Any], Any] | None:
    """Return the sanity function of a check's class, to call it on any output.

    ReFrame itself calls it on the output of the check's job only.
    """
    function: Callable[[Any], Any] | None = getattr(type(check), "_rfm_sanity", None)
    return function


def replace_sanity(check: Any, function: Callable[[], Any]) -> None:
    """Let ReFrame judge a check by `function`.

    ReFrame does not let `sanity_patterns` be set if the check's class has a sanity function.
    """
    check._rfm_sanity = function


#: How long a session that a signal ends waits for a cancelled job, seconds. Slurm lets tasks live
#: for the same time after SIGTERM (KillWait).
CANCEL_WAIT_S = 30.0


class _NotEndedError(BaseException):
    """A cancelled job is not known to have ended. No `except Exception` catches this error."""


@cache
def limit_wait(scheduler_class: Any) -> None:
    """Let a session of ReFrame that a signal ends wait for its jobs for a limited time.

    ReFrame cancels a job and waits until the scheduler says that it has ended, and ignores further
    signals. If Slurm does not answer, or has lost the job, it would wait for ever.
    """
    wait = scheduler_class.wait

    def wait_in_time(scheduler: Any, job: Any) -> None:
        # ReFrame ignores SIGTERM after the first signal that ends the session.
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
            wait(scheduler, job)
            return
        try:
            with _alarm(CANCEL_WAIT_S):
                wait(scheduler, job)
        except _NotEndedError:
            hint = client.cancel_command([str(job.jobid)])
            getlogger().warning(f"job {job.jobid} may not have ended: `{hint}` cancels it")

    scheduler_class.wait = wait_in_time


@cache
def confirm_ends(scheduler_class: Any) -> None:
    """Let ReFrame regard a job as ended only if slurmctld says so.

    ReFrame's scheduler for clusters without accounting regards a job as ended if Slurm's answer
    does not list it. This includes the answer that slurmctld cannot be reached.
    """
    poll = scheduler_class.poll

    def poll_and_confirm(scheduler: Any, *jobs: Any) -> None:
        states = [(job, job.state) for job in jobs if job is not None]
        poll(scheduler, *jobs)
        for job, state in states:
            if scheduler.finished(job) and not client.has_ended(str(job.jobid)):
                job._state = state

    scheduler_class.poll = poll_and_confirm


@cache
def end_preempted_jobs() -> None:
    """Let ReFrame regard a preempted job as ended, since jobs are submitted with `--no-requeue`.

    ReFrame itself regards such a job as pending, and would wait for ever.
    """
    from reframe.core.schedulers import slurm

    has_ended, is_pending = slurm.slurm_state_completed, slurm.slurm_state_pending

    def as_cancelled(state: str | None) -> str:
        return (state or "").replace("PREEMPTED", "CANCELLED")

    slurm.slurm_state_completed = lambda state: has_ended(as_cancelled(state))
    slurm.slurm_state_pending = lambda state: is_pending(as_cancelled(state))


@cache
def start_scripts_with_blanks() -> None:
    """Let ReFrame start a script on this host if the script's path has blanks or quotes.

    ReFrame compiles by such a script, also for jobs of Slurm, and splits its path as a shell does.
    """
    start = osext.run_command_async

    def start_script(command: str | Sequence[str], *arguments: Any, **options: Any) -> Any:
        is_script = isinstance(command, str) and os.path.isfile(command)
        return start([command] if is_script else command, *arguments, **options)

    osext.run_command_async = start_script


def node_names(job: Any) -> list[str]:
    """Return the names of the nodes of a job that has ended; [] if Slurm never told them.

    Without this function, ReFrame would then take `None`, or the accounting's `None assigned`, for
    names of nodes.
    """
    expression = getattr(job, "_nodespec", "this host") or "None assigned"
    return [] if expression.startswith("None assigned") else list(job.nodelist or [])


@contextmanager
def _alarm(after_s: float) -> Iterator[None]:
    def end_wait(_signum: int, _frame: FrameType | None) -> None:
        raise _NotEndedError

    earlier_handler = signal.signal(signal.SIGALRM, end_wait)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier_handler)


def reference(check: rfm.RegressionTest, name: str) -> tuple[Any, Any, Any, Any]:
    """Return value, lower bound, upper bound and unit of a figure's reference.

    Each is None if the reference lacks it. ReFrame resolves the forms of references for its log
    only.
    """
    resolved: Any = ()
    with suppress(KeyError):  # the figure has no reference
        resolved = check._resolve_reference()[f"{check.current_partition.fullname}:{name}"]
    fields = list(getattr(resolved, "data", resolved))
    value, lower, upper, unit = (fields + [None] * 4)[:4]
    return value, lower, upper, unit


@contextmanager
def outputs_of_job(job: Any, out: str, err: str) -> Iterator[None]:
    """Within this context, a job has these outputs. ReFrame has no way to set them."""
    before = job._stdout, job._stderr
    job._stdout, job._stderr = out, err
    try:
        yield
    finally:
        job._stdout, job._stderr = before
