"""Finds why a job that ReFrame submitted has ended without writing the files that it must write."""

from __future__ import annotations

from pathlib import Path

import reframe as rfm

from nimc.cluster.node_inspection import NOT_STARTED_REASON
from records.files import refresh
from records.last_words import cause_or_gist


def ended_job_reason(check: rfm.RegressionTest) -> str:
    """Return in one line the state in which the job of a ReFrame test ended, and why.

    The reason comes from the job's output. If there is no output file, the job did not start in
    time, or its output did not reach this host.
    """
    refresh(Path(check.stagedir))
    paths = [Path(check.stagedir, str(name)) for name in (check.stderr, check.stdout)]
    outputs = [path.read_text(errors="replace") for path in paths if path.exists()]
    state = str(check.job.state)
    if outputs:
        cause = cause_or_gist(*outputs) or "no output"
    elif state.startswith(("CANCELLED", "PENDING")):
        cause = f"{NOT_STARTED_REASON} {check.max_pending_time:g} s"
    else:
        cause = f"its output did not reach {check.stagedir} on this host"
    return f"job {check.job.jobid} ended as {state}: {cause}"
