"""What so many pairs show in 90 % of runs, from `power.json`.

`python -m tests.studies.power` makes it: nights with normal noise, judged as real ones are. All
lengths are logarithms, in spreads of one run (standard deviations of the logarithm of its time).
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Literal

from analysis.effects.verdict import LEVELS
from analysis.statistics.looks import Look, looks

#: What is wanted: a loss, one above a control that takes as long as the baseline, or 'no effect'.
Wanted = Literal["slower", "above_control", "within"]

TABLE = Path(__file__).with_suffix(".json")
#: No more pairs are taken into account.
_MOST = 2000
#: Share of baseline runs right after writes in the nights of the table: `off`, `on` and `aa`.
_AFTER = 4 / 9


def least_loss(pairs: int, hypotheses: int, *, controlled: bool) -> float | None:
    """The least loss that so many pairs show, next to other hypotheses that show nothing.

    None if they show none of any size.
    """
    *_, last = [None, *looks(pairs)]
    wanted: Wanted = "above_control" if controlled else "slower"
    return None if last is None else _least(last, hypotheses, wanted)


def pairs_for_none(margin: float, hypotheses: int, after_writes: float = _AFTER) -> int | None:
    """The first look that shows of an effect of nothing that it is within a margin; or None.

    `after_writes`: share of baseline runs that come right after writes.
    """
    more = max(0.0, _allowed(after_writes) - _allowed(_AFTER))
    for interim in looks(_MOST):
        least = _least(interim, hypotheses, "within")
        if least is not None and least + more / math.sqrt(interim.pairs) <= margin:
            return interim.pairs
    return None


def after_writes(runs: int, effects: int) -> float:
    """Share of baseline runs right after writes, of so many runs with a baseline in each pair.

    One that comes first follows the last run of the pair before.
    """
    return effects / runs * (1 + 1 / runs)


def _allowed(share: float) -> float:
    """What 'no effect' allows for carry-over, times the root of the pairs.

    The share, times a standard error of the pairs with a baseline run of either kind: 2 s (1 - s).
    """
    return math.sqrt(share / (1 - share))


def _least(interim: Look, hypotheses: int, wanted: Wanted) -> float | None:
    """As in the table, at as many hypotheses or more; beyond it, by Student's t."""
    of_look = _table()[wanted].get(str(interim.pairs), {})
    enough = [number for number in of_look if int(number) >= hypotheses]
    return of_look[min(enough, key=int)] if enough else by_student(interim, hypotheses, wanted)


@cache
def _table() -> dict[str, dict[str, dict[str, float | None]]]:
    """What is wanted -> pairs of a look -> hypotheses -> the least size that is shown."""
    table: dict[str, dict[str, dict[str, float | None]]] = json.loads(TABLE.read_text())
    return table


#: Share of nights in which what the table has is shown: so many that 0.9 is not missed by chance.
POWER = 0.92
#: Baseline runs of a pair that the treated one is compared with.
_BASELINES: dict[Wanted, int] = {"slower": 2, "above_control": 1, "within": 2}


def by_student(interim: Look, hypotheses: int, wanted: Wanted) -> float:
    """About the size that a look shows, from Student's t of its pairs."""
    from scipy import special

    # Both one-sided tests must show that it lies within a margin.
    power = (1 + POWER) / 2 if wanted == "within" else POWER
    error = interim.share * LEVELS[wanted] / hypotheses
    quantiles = special.stdtrit(interim.pairs - 1, [1 - error, power])
    return float(quantiles.sum()) * math.sqrt((1 + 1 / _BASELINES[wanted]) / interim.pairs)
