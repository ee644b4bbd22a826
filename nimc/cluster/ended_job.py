"""Why a job of ReFrame ended, for the checks that wait for its files."""

from __future__ import annotations

from pathlib import Path

import reframe as rfm

from nimc.cluster.node_look import NOT_STARTED
from records.last_words import cause_or_gist


def ended_job_reason(check: rfm.RegressionTest) -> str:
    """Return how the job of a check ended, and why, by its output or by the lack of any."""
    outputs = [Path(check.stagedir, str(name)) for name in (check.stdout, check.stderr)]
    texts = [path.read_text(errors="replace") for path in outputs if path.exists()]
    state = str(check.job.state)
    if texts:
        why = cause_or_gist(*reversed(texts)) or "no output"
    elif state.startswith(("CANCELLED", "PENDING")):
        why = f"{NOT_STARTED} {check.max_pending_time:g} s"
    else:
        why = f"its output did not get to {check.stagedir} of this host"
    return f"job {check.job.jobid} ended as {state}: {why}"
