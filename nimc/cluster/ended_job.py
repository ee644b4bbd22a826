"""What a job of ReFrame said last, for the checks that wait for what it leaves."""

from __future__ import annotations

from pathlib import Path

import reframe as rfm

from records.last_words import quoted


def ended_job(check: rfm.RegressionTest) -> str:
    """How the job of a check ended, and why: its last words, or that it has not started."""
    outputs = [Path(check.stagedir, str(name)) for name in (check.stdout, check.stderr)]
    texts = [path.read_text(errors="replace") for path in outputs if path.exists()]
    why = f"it had not started after {check.max_pending_time:g} s"
    if texts:
        why = quoted(*reversed(texts)) or "no output"
    return f"job {check.job.jobid} ended as {check.job.state}: {why}"
