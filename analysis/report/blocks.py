"""Blocks that ended early, from the logs of a run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import InputError
from analysis.reading import read_json


@dataclass(frozen=True)
class UnfinishedBlock:
    """A block that ended before its last pair."""

    case: str
    block: str
    #: What failed: `node_failed`, `time_limit`, `cancelled`, `application_failed`, ...
    outcome: str
    reason: str


def unfinished_blocks(run: Path) -> list[UnfinishedBlock]:
    """Blocks whose `job.json` has an outcome other than `done`, in order of case and block."""
    found = []
    for file in sorted((run / "logs").glob("*/*/job.json")):
        with suppress(OSError, InputError, KeyError, TypeError):
            job = read_json(file)
            outcome, reason = str(job["outcome"]), str(job["reason"] or "")
            if outcome != "done":
                case, block = file.parts[-3:-1]
                found.append(UnfinishedBlock(case, block, outcome, reason))
    return found
