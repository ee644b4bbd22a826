"""How long a run must be for the writers' rows to show what happened in it. Pure but for the file.

A writer reports a row a second, or less often. A run that is shorter than two of them may have no
row of its own: it shares each with the time before or after it. So a block's runs are made longer
until two rows fit into its last warm-up: doubled, so that the blocks and nights of a case mostly
come to the same length.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2
from pathlib import Path
from statistics import median
from typing import Any, Literal

from conductor.series import RateRow
from records.errors import MachineError
from records.files import replace_text

#: Rows of a writer that must fit into a run.
LEAST_ROWS = 2
#: The lengths that a check plans: 2, 4, ... times its own.
MOST_DOUBLINGS = 6
TIMES = [2**each for each in range(1, MOST_DOUBLINGS + 1)]
#: File in the logs of a block whose runs were made longer.
_FILE = "length.json"


def least_run_s(row_s: float) -> float:
    """The shortest run that rows of this length allow, seconds."""
    return LEAST_ROWS * row_s


def doublings(run_s: float, least_s: float) -> int:
    """How often a run must be made twice as long to reach the least; 0 if it is long enough."""
    return ceil(log2(least_s / run_s)) if 0 < run_s < least_s else 0


def interval_s(rows: Sequence[RateRow], row_s: float) -> float:
    """Time from one row to the next: as declared, or longer, since programs pause between them."""
    return max(row_s, median(later.end_s - row.end_s for row, later in pairwise(rows)))


@dataclass(frozen=True)
class _Length:
    #: How often the runs were doubled, at most `MOST_DOUBLINGS` times.
    doublings: Literal[0, 1, 2, 3, 4, 5, 6]


def store(logs: Path, often: int) -> None:
    """Note in a block's logs how often its runs were doubled, for the case's next blocks."""
    replace_text(logs / _FILE, json.dumps({"doublings": often}))


def longest_stored(case_logs: Path) -> int:
    """How often runs of the case were doubled in earlier blocks; 0 if there are none.

    Raises MachineError for a file that `store` did not write.
    """
    stored = [read_record(path, _Length).doublings for path in case_logs.glob(f"*/{_FILE}")]
    return max(stored, default=0)


def read_record(path: Path, kind: Any) -> Any:
    """What an earlier block of the case wrote. Raises MachineError for what is no `kind`."""
    from pydantic import TypeAdapter  # the block has read its plan with it

    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except (OSError, ValueError):
        raise MachineError(f"{path}: not what a block wrote; remove the file") from None
