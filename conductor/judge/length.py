"""How long a run must be, so that the writers' rows show what happened in it.

A row is a writer's report for an interval. Most writers report one row a second. If a run is
shorter than two rows, each of its rows may also cover time before or after the run. So the
conductor lengthens the runs of a block until two rows fit into the last warm-up. If there is no
warm-up, a block whose first run is too short ends. The conductor doubles the length, so that most
blocks and nights of a case get the same length. If devices update their byte counters rarely, a run
must also be so long that a late update hardly changes the count. All functions are pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import Literal

#: Number of a writer's rows that must fit into a run.
LEAST_ROWS = 2
#: A late update of the counter may use up this share of the allowed difference between a count and
#: the writers' report.
_LATE_SHARE = 0.5
#: Maximum number of doublings of a run's length.
MOST_DOUBLINGS = 6
#: The longer runs that a check prepares, as multiples of its own length: 2, 4, ...
MULTIPLES = [2**exponent for exponent in range(1, MOST_DOUBLINGS + 1)]
#: File in the logs of a block whose runs were lengthened. It has a `Lengthening`.
FILE = "length.json"


def shortest_count_s(period_s: float, counter_share: float) -> float:
    """Return the least time over which a counter is precise enough, seconds.

    The device updates the counter every `period_s`. So a count may lack the bytes of one period, or
    contain the bytes of one period too many. `counter_share` is the allowed difference
    (`AcceptanceLimits`).
    """
    return period_s / (_LATE_SHARE * counter_share)


def doublings_needed(run_s: float, least_s: float) -> int:
    """Return how many times the length of a run, `run_s`, must be doubled to reach `least_s`."""
    return ceil(log2(least_s / run_s)) if run_s < least_s else 0


@dataclass(frozen=True)
class Lengthening:
    """The lengthening of a block's runs, stored for the next blocks of the case."""

    #: How many times the length of the runs was doubled, at most `MOST_DOUBLINGS`.
    doublings: Literal[0, 1, 2, 3, 4, 5, 6]
