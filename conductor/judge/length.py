"""How long a run must be for the writers' rows to show what happened in it. Pure.

A writer reports a row a second, or less often. A run that is shorter than two of them may have no
row of its own: it shares each with the time before or after it. So a block's runs are made longer
until two rows fit into its last warm-up: doubled, so that the blocks and nights of a case mostly
come to the same length.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import Literal

#: Rows of a writer that must fit into a run.
LEAST_ROWS = 2
#: The lengths that a check plans: 2, 4, ... times its own.
MOST_DOUBLINGS = 6
TIMES = [2**exponent for exponent in range(1, MOST_DOUBLINGS + 1)]
#: File in the logs of a block whose runs were made longer (`Length`).
FILE = "length.json"


def doublings(run_s: float, least_s: float) -> int:
    """How often a run must be made twice as long to reach the least; 0 if it is long enough."""
    return ceil(log2(least_s / run_s)) if 0 < run_s < least_s else 0


@dataclass(frozen=True)
class Length:
    """How a block's runs were made longer, noted for the case's next blocks."""

    #: How often they were doubled, at most `MOST_DOUBLINGS` times.
    doublings: Literal[0, 1, 2, 3, 4, 5, 6]
