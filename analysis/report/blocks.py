"""What became of blocks that were not finished, from the logs of a run."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LostBlock:
    """A block that ended before its last pair."""

    case: str
    block: str
    #: Who failed: `node_failed`, `time_limit`, `cancelled`, `application_failed`, ...
    outcome: str
    reason: str


def lost_blocks(run: Path) -> list[LostBlock]:
    """Blocks whose `job.json` names another outcome than `done`, in order of case and block."""
    found = []
    for file in sorted((run / "logs").glob("*/*/job.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            job = json.loads(file.read_text(encoding="utf-8"))
            outcome, reason = str(job["outcome"]), str(job["reason"] or "")
            if outcome != "done":
                case, block = file.parts[-3:-1]
                found.append(LostBlock(case, block, outcome, reason))
    return found
