"""Why a block failed, in one line: from the conductor, ReFrame and the disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Any

from injection.conductor import UNREAD

#: A disk with less room than this cannot take another sample, bytes.
_FULL_B = 64 * 1024
#: Longest reason that is printed, characters.
_LONGEST = 400


def why_failed(status: int, logs: Path) -> str | None:
    """None if the session with exit status `status` and the folder `logs` succeeded."""
    job = _read(logs / "job.json")
    if job.get("outcome", "done") != "done":
        return _line(f"{job['outcome']}: {job.get('reason') or 'no reason given'}")
    block = _read(logs / "block.json")
    if status == 0 and block.get("state", "done") == "done":
        return None if block else _skipped(logs)
    space = os.statvfs(logs)
    if space.f_bavail * space.f_frsize < _FULL_B:
        return f"{logs}: No space left on device"
    if block.get("state", "done") != "done":
        return _line(f"{block['state']}: {block.get('reason') or 'no reason given'}")
    report = _read(logs / "reframe.json")
    if block and _phases(report) and _phases(report) <= {"sanity", "performance"}:
        return None  # no pair of an arm, or slower than its reference: results, reported elsewhere
    for reason in _reported(report):
        return _line(reason)
    how = f"ended with status {status}" if status >= 0 else f"was killed by {Signals(-status).name}"
    return _line(f"ReFrame {how}: {_last_words(logs / 'reframe.log')}")


def is_begun(logs: Path) -> bool:
    """Whether the conductor has begun the block: it writes this file first."""
    return (logs / "agents.log").exists()


def is_done(logs: Path) -> bool:
    """Whether the conductor has finished the block, whatever ReFrame knows of it."""
    return bool(_read(logs / "block.json").get("state") == "done")


def is_read(logs: Path) -> bool:
    """Whether ReFrame has no output of a check of others left to read."""
    return not (logs / UNREAD).exists()


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record, dict):
            return record
    return {}


def _phases(report: dict[str, Any]) -> set[str]:
    """Phases of ReFrame in which cases failed."""
    failed = [case for case in _cases(report) if case.get("result") not in ("pass", "skip")]
    return {case.get("fail_phase") or "run" for case in failed}


def _cases(report: dict[str, Any]) -> list[dict[str, str]]:
    """Test cases of ReFrame's report, without fields that are null; none of what is no report."""
    runs = report.get("runs")
    tried = [run.get("testcases") for run in _objects(runs)]
    return [
        {key: str(value) for key, value in case.items() if value is not None}
        for cases in tried
        for case in _objects(cases)
    ]


def _objects(found: Any) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _reported(report: dict[str, Any]) -> Iterator[str]:
    """Reasons in ReFrame's own report."""
    for case in _cases(report):
        if case.get("result") in ("fail", "abort") or case.get("fail_reason"):
            phase = case.get("fail_phase") or "run"
            yield f"ReFrame failed in '{phase}': {case.get('fail_reason') or 'no reason given'}"


def _skipped(logs: Path) -> str | None:
    """Why ReFrame skipped the check everywhere; only its log says so."""
    results = {case.get("result") for case in _cases(_read(logs / "reframe.json"))}
    if results != {"skip"}:
        return None
    with suppress(OSError):
        log = (logs / "reframe.log").read_text(encoding="utf-8", errors="replace")
        reasons = re.findall(r"SKIP.*? \[([^][]+)\]\s*$", log, re.MULTILINE)
        return _line(f"skipped: {'; '.join(dict.fromkeys(reasons))}")
    return "skipped by ReFrame"


def _last_words(log: Path) -> str:
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if "error" in line.lower()] or [
            line for line in lines if line.strip()
        ]
        if errors:
            return f"{errors[-1].strip()} ({log})"
    return f"it printed nothing to {log}"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
