"""Why a job of ReFrame ended, for the checks that wait for its files."""

from __future__ import annotations

from pathlib import Path

import reframe as rfm

from nimc.cluster.node_look import NOT_STARTED_REASON
from records.files import refresh
from records.last_words import cause_or_gist


def ended_job_reason(check: rfm.RegressionTest) -> str:
    """Return how the job of a check ended, and why, as its output or the lack of any shows."""
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
