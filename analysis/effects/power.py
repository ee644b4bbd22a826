"""The smallest effects that a number of pairs shows in 90 % of runs, from `power.json`.

`python -m tests.studies.power` makes this table from simulated nights with normal noise, which are
judged as real nights are. Sizes of effects are logarithms, in spreads of one run (standard
deviations of the logarithm of its time).
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

#: The statement that pairs are to show: a loss, a loss above a control that takes as long as the
#: baseline, or 'no effect'.
Statement = Literal["slower", "above_control", "within"]

TABLE = Path(__file__).with_suffix(".json")
#: Most pairs that are taken into account.
MAX_PAIRS = 2000
#: Share of baseline runs right after writes in the nights of the table: `off`, `on` and `aa`.
_AFTER_WRITES = 4 / 9


def min_loss(
    pairs: int, hypotheses: int, after_writes: float = _AFTER_WRITES, *, controlled: bool
) -> float | None:
    """The smallest loss that `pairs` show, if the campaign's other hypotheses show nothing.

    None if they show no loss of any size. `after_writes`: share of baseline runs that come right
    after writes.
    """
    analyses = list(interim_analyses(pairs))
    if not analyses:
        return None
    statement: Statement = "above_control" if controlled else "slower"
    return _min_size(analyses[-1], hypotheses, after_writes, statement)


def pairs_for_no_effect(
    margin: float, hypotheses: int, after_writes: float = _AFTER_WRITES
) -> int | None:
    """Pairs of the first interim analysis that can show 'no effect' within a margin, or None.

    `after_writes` is that of `min_loss`.
    """
    for interim in interim_analyses(MAX_PAIRS):
        size = _min_size(interim, hypotheses, after_writes, "within")
        if size is not None and size <= margin:
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
        loss = min_loss(interim.pairs, row.family, controlled=controlled)
        if loss is not None and loss * spread <= change:
            return interim.pairs
    return None


def _spread(row: Result) -> float:
    """The spread of one run, if the slowdown's interval is taken as Student's t; above 0."""
    from scipy import special

    assert row.slowdown
    half_width = math.log(row.slowdown.high / row.slowdown.low) / 2
    error = half_width / float(special.stdtrit(row.pairs - 1, UPPER_PROBABILITY))
    return max(error * math.sqrt(row.pairs / (1 + 1 / _BASELINES["slower"])), _MIN_SPREAD)


def share_after_writes(runs: int, effects: int) -> float:
    """Share of baseline runs that come right after writes.

    A pair has so many `runs` with the same baseline, that one included; `effects` of them have
    writes. The first run of a pair follows the last run of the pair before.
    """
    return effects / runs * (1 + 1 / runs)


def _carry_over_allowance(after_writes: float, statement: Statement) -> float:
    """The carry-over that verdicts allow for, times the square root of the number of pairs.

    It is the share `s` of baseline runs after writes, times so many standard errors of the
    carry-over. A share 2 s (1 - s) of the pairs has baseline runs of both kinds, from which it is
    estimated.
    """
    below, above = REACH_STANDARD_ERRORS
    standard_errors = above if statement == "within" else below
    return standard_errors * math.sqrt(after_writes / (1 - after_writes))


def _min_size(
    interim: InterimAnalysis, hypotheses: int, after_writes: float, statement: Statement
) -> float | None:
    """The smallest size that is shown: the table's at as many hypotheses or more.

    With more hypotheses or pairs than the table has, it follows from Student's t.
    """
    sizes = _table()[statement].get(str(interim.pairs), {})
    tabled_numbers = [number for number in sizes if int(number) >= hypotheses]
    allowance = _carry_over_allowance(after_writes, statement)
    root = math.sqrt(interim.pairs)
    if not tabled_numbers:
        return size_by_student(interim, hypotheses, statement) + allowance / root
    size = sizes[min(tabled_numbers, key=int)]
    if size is None:
        return None
    # The table already has the allowance of its own nights.
    return size + max(0.0, allowance - _carry_over_allowance(_AFTER_WRITES, statement)) / root


@cache
def _table() -> dict[str, dict[str, dict[str, float | None]]]:
    """Statement -> pairs of an interim analysis -> hypotheses -> the smallest size shown."""
    table: dict[str, dict[str, dict[str, float | None]]] = json.loads(TABLE.read_text())
    return table


#: Share of simulated nights that show the sizes of the table. It is above 0.9, so that runs reach
#: 0.9 although the simulation is a sample.
POWER = 0.92
#: Least spread of runs, as a share. Runs that are all alike would have a spread of 0.
_MIN_SPREAD = 1e-9
#: Baseline runs of a pair with which the treated run is compared.
_BASELINES: dict[Statement, int] = {"slower": 2, "above_control": 1, "within": 2}


def size_by_student(interim: InterimAnalysis, hypotheses: int, statement: Statement) -> float:
    """The approximate size that an interim analysis shows without carry-over, by Student's t."""
    from scipy import special

    # For 'no effect', both one-sided tests must be significant.
    power = (1 + POWER) / 2 if statement == "within" else POWER
    error = interim.share * ERROR_LEVELS[statement] / hypotheses
    quantiles = special.stdtrit(interim.pairs - 1, [1 - error, power])
    return float(quantiles.sum()) * math.sqrt((1 + 1 / _BASELINES[statement]) / interim.pairs)
