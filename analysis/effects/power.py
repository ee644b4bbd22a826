"""The effects that so many pairs show in 90 % of runs, from `power.json`.

`python -m tests.studies.power` makes it: nights with normal noise, judged as real ones are. All
lengths are logarithms, in spreads of one run (standard deviations of the logarithm of its time).
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Literal

from analysis.effects.result import Result, Verdict
from analysis.effects.statements import ERROR_LEVELS
from analysis.statistics.carry_over import REACH_STANDARD_ERRORS
from analysis.statistics.evidence import InterimAnalysis, interim_analyses
from analysis.statistics.interval import UPPER_PROBABILITY

#: The statement wanted: a loss, one above a control as long as the baseline, or 'no effect'.
Statement = Literal["slower", "above_control", "within"]

TABLE = Path(__file__).with_suffix(".json")
#: No more pairs are taken into account.
MAX_PAIRS = 2000
#: Share of baseline runs right after writes in the nights of the table: `off`, `on` and `aa`.
_AFTER = 4 / 9


def min_loss(
    pairs: int, hypotheses: int, after_writes: float = _AFTER, *, controlled: bool
) -> float | None:
    """The least loss that so many pairs show, next to other hypotheses that show nothing.

    None if they show none of any size. `after_writes`: share of baseline runs that come right after
    writes.
    """
    *_, last = [None, *interim_analyses(pairs)]
    wanted: Statement = "above_control" if controlled else "slower"
    return None if last is None else _least(last, hypotheses, after_writes, wanted)


def pairs_for_no_effect(margin: float, hypotheses: int, after_writes: float = _AFTER) -> int | None:
    """Pairs of the first interim analysis that can show 'no effect' within a margin, or None.

    `after_writes` is that of `min_loss`.
    """
    for interim in interim_analyses(MAX_PAIRS):
        least = _least(interim, hypotheses, after_writes, "within")
        if least is not None and least <= margin:
            return interim.pairs
    return None


def pairs_to_decide(row: Result) -> int | None:
    """Pairs at which 90 % of runs decide an effect that is as large as estimated.

    They show a change beyond the margin, or else 'no effect'. If the row is not above the control,
    they show its loss against the control. None if `MAX_PAIRS` are too few. The spread of runs is
    derived from the interval of the row's slowdown, which must have an estimate.
    """
    assert row.slowdown
    if not 0 < row.slowdown.low <= row.slowdown.high < math.inf:
        return None
    change, margin = abs(math.log(row.slowdown.value)), math.log1p(row.margin)
    spread = _spread(row)
    if change <= margin:
        return pairs_for_no_effect(margin / spread, row.family)
    controlled = row.control is not None
    if row.verdict is Verdict.NOT_ABOVE_CONTROL and row.over_control:
        change = math.log(row.over_control.value)
    for interim in interim_analyses(MAX_PAIRS):
        least = min_loss(interim.pairs, row.family, controlled=controlled)
        if least is not None and least * spread <= change:
            return interim.pairs
    return None


def _spread(row: Result) -> float:
    """The spread of one run that an interval of Student's t would have; above 0."""
    from scipy import special

    assert row.slowdown
    half = math.log(row.slowdown.high / row.slowdown.low) / 2
    error = half / float(special.stdtrit(row.pairs - 1, UPPER_PROBABILITY))
    return max(error * math.sqrt(row.pairs / (1 + 1 / _BASELINES["slower"])), _LEAST_SPREAD)


def share_after_writes(runs: int, effects: int) -> float:
    """Share of baseline runs right after writes, of so many runs with a baseline in each pair.

    One that comes first follows the last run of the pair before.
    """
    return effects / runs * (1 + 1 / runs)


def _allowed(share: float, wanted: Statement) -> float:
    """Return what verdicts allow for carry-over, times the root of the pairs.

    The share, times what is beyond the estimate in standard errors of the pairs with a baseline run
    of either kind: 2 s (1 - s).
    """
    return REACH_STANDARD_ERRORS[wanted == "within"] * math.sqrt(share / (1 - share))


def _least(
    interim: InterimAnalysis, hypotheses: int, after_writes: float, wanted: Statement
) -> float | None:
    """Return the table's size at as many hypotheses or more; beyond it, by Student's t."""
    losses_by_hypotheses = _table()[wanted].get(str(interim.pairs), {})
    enough = [number for number in losses_by_hypotheses if int(number) >= hypotheses]
    allowed = _allowed(after_writes, wanted)
    if not enough:
        return size_by_student(interim, hypotheses, wanted) + allowed / math.sqrt(interim.pairs)
    size = losses_by_hypotheses[min(enough, key=int)]
    more = max(0.0, allowed - _allowed(_AFTER, wanted))
    return None if size is None else size + more / math.sqrt(interim.pairs)


@cache
def _table() -> dict[str, dict[str, dict[str, float | None]]]:
    """Statement -> pairs of an interim analysis -> hypotheses -> the least size that is shown."""
    table: dict[str, dict[str, dict[str, float | None]]] = json.loads(TABLE.read_text())
    return table


#: Share of nights in which what the table has is shown: so many that 0.9 is not missed by chance.
POWER = 0.92
#: Least spread of runs, as a share: that of runs which are all alike is 0.
_LEAST_SPREAD = 1e-9
#: Baseline runs of a pair that the treated one is compared with.
_BASELINES: dict[Statement, int] = {"slower": 2, "above_control": 1, "within": 2}


def size_by_student(interim: InterimAnalysis, hypotheses: int, wanted: Statement) -> float:
    """About the size that an interim analysis shows without carry-over, by Student's t."""
    from scipy import special

    # Both one-sided tests must show that it lies within a margin.
    power = (1 + POWER) / 2 if wanted == "within" else POWER
    error = interim.share * ERROR_LEVELS[wanted] / hypotheses
    quantiles = special.stdtrit(interim.pairs - 1, [1 - error, power])
    return float(quantiles.sum()) * math.sqrt((1 + 1 / _BASELINES[wanted]) / interim.pairs)
