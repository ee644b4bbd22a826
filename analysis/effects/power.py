"""The smallest effects that a number of pairs shows in 90 % of nights, from `power.json`.

A night is one run of a campaign. `python -m tests.studies.power` makes this table from simulated
nights with normal noise, which are judged as real nights are. Sizes of effects, and margins, are
logarithms. Their unit is the spread of the application's runs (the standard deviation of the
logarithm of their times).
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Literal

from analysis.effects.result import Result, Verdict
from analysis.effects.statements import ERROR_LEVELS
from analysis.statistics.carry_over import ALLOWANCE_STANDARD_ERRORS
from analysis.statistics.evidence import InterimAnalysis, interim_analyses
from analysis.statistics.interval import UPPER_PROBABILITY

#: The statement that pairs are to show: a loss, a loss that is also above the control, or 'no
#: effect'. Runs of the control are assumed to take as long as those of the baseline.
Statement = Literal["slower", "above_control", "within"]

TABLE_FILE = Path(__file__).with_suffix(".json")
#: Maximum number of pairs that is taken into account.
MAX_PAIRS = 2000
#: Share of baseline runs that come right after writes, in the nights that the table was made from.
#: Their arms are `off`, `on` and `aa`.
_AFTER_WRITES_SHARE = 4 / 9


def min_loss(
    pairs: int,
    hypotheses: int,
    after_writes_share: float = _AFTER_WRITES_SHARE,
    *,
    controlled: bool,
) -> float | None:
    """Return the smallest loss that so many pairs show, if the other hypotheses show nothing.

    None if they show no loss, however large. `after_writes_share`: share of baseline runs that
    come right after writes. `controlled`: whether the loss must also be above the control.
    """
    analyses = list(interim_analyses(pairs))
    if not analyses:
        return None
    statement: Statement = "above_control" if controlled else "slower"
    return _min_size(analyses[-1], hypotheses, after_writes_share, statement)


def pairs_for_no_effect(
    margin: float, hypotheses: int, after_writes_share: float = _AFTER_WRITES_SHARE
) -> int | None:
    """Return the pairs of the first interim analysis that can show 'no effect', or None.

    `margin` is in spreads; `after_writes_share` is that of `min_loss`.
    """
    for interim in interim_analyses(MAX_PAIRS):
        size = _min_size(interim, hypotheses, after_writes_share, "within")
        if size is not None and size <= margin:
            return interim.pairs
    return None


def pairs_to_decide(row: Result) -> int | None:
    """Return the pairs at which 90 % of nights decide an effect that is as large as estimated.

    If the verdict is 'not above the control', they decide for a loss against the control. Otherwise
    they decide for 'no effect' if the estimate lies within the margin, else for a change beyond it.
    A speed-up is taken to need as many pairs as a loss of the same ratio. None if `MAX_PAIRS` are
    too few, or if an end of the slowdown's interval is 0 or infinite. The spread of runs is derived
    from this interval. `row` must have a slowdown.
    """
    assert row.slowdown
    if not 0 < row.slowdown.low <= row.slowdown.high < math.inf:
        return None
    change, margin = abs(math.log(row.slowdown.value)), math.log1p(row.margin)
    spread = _spread(row)
    if row.verdict is Verdict.NOT_ABOVE_CONTROL and row.over_control:
        # Such a run is shown to be slower than off, so 'no effect' is no longer a verdict on it.
        change = math.log(row.over_control.value)
    elif change <= margin:
        return pairs_for_no_effect(margin / spread, row.family)
    controlled = row.control is not None
    for interim in interim_analyses(MAX_PAIRS):
        loss = min_loss(interim.pairs, row.family, controlled=controlled)
        if loss is not None and loss * spread <= change:
            return interim.pairs
    return None


def _spread(row: Result) -> float:
    """Return the spread of runs, as if the slowdown's interval were Student's t; above 0."""
    from scipy import special

    assert row.slowdown
    half_width = math.log(row.slowdown.high / row.slowdown.low) / 2
    standard_error = half_width / float(special.stdtrit(row.pairs - 1, UPPER_PROBABILITY))
    return max(
        standard_error * math.sqrt(row.pairs / (1 + 1 / _BASELINE_RUN_COUNTS["slower"])),
        _MIN_SPREAD,
    )


def share_after_writes(runs: int, effects: int) -> float:
    """Return the share of baseline runs that come right after writes.

    Only a baseline and the treatments paired with it are considered: `runs` runs in each pair, of
    which `effects` have writes.
    """
    # With the chance 1 / runs, a baseline run is the first of its pair, and follows any of the runs
    # of the previous pair. Otherwise it follows one of the runs - 1 other runs of its own pair:
    # 1 / runs * effects / runs + (runs - 1) / runs * effects / (runs - 1).
    return effects / runs * (1 + 1 / runs)


def _carry_over_allowance(after_writes_share: float, statement: Statement) -> float:
    """Return the shift of the mean baseline that verdicts allow for, times sqrt(pairs), in spreads.

    Verdicts allow for a carry-over of k standard errors (`ALLOWANCE_STANDARD_ERRORS`). If a share s
    of the baseline runs comes right after writes, the mean baseline is shifted by

        s k sqrt(2 / (2 s (1 - s) n)) = k sqrt(s / (1 - s)) / sqrt(n),

    since a share 2 s (1 - s) of the n pairs has baseline runs of both kinds, from which the
    carry-over is estimated.
    """
    below, above = ALLOWANCE_STANDARD_ERRORS
    standard_errors = above if statement == "within" else below
    return standard_errors * math.sqrt(after_writes_share / (1 - after_writes_share))


def _min_size(
    interim: InterimAnalysis, hypotheses: int, after_writes_share: float, statement: Statement
) -> float | None:
    """Return the smallest size of an effect that is shown; None if no size is.

    It is read from the table's column for `hypotheses` or, if there is none, for the next larger
    number. For more hypotheses or pairs than the table has, it follows from Student's t.
    """
    sizes = _table()[statement].get(str(interim.pairs), {})
    hypothesis_counts = [count for count in sizes if int(count) >= hypotheses]
    allowance = _carry_over_allowance(after_writes_share, statement)
    sqrt_pairs = math.sqrt(interim.pairs)
    if not hypothesis_counts:
        return size_by_student(interim, hypotheses, statement) + allowance / sqrt_pairs
    size = sizes[min(hypothesis_counts, key=int)]
    if size is None:
        return None
    table_allowance = _carry_over_allowance(_AFTER_WRITES_SHARE, statement)
    # The sizes of the table include the allowance of its own nights.
    return size + max(0.0, allowance - table_allowance) / sqrt_pairs


@cache
def _table() -> dict[str, dict[str, dict[str, float | None]]]:
    """Return statement -> pairs of an interim analysis -> hypotheses -> smallest size shown."""
    table: dict[str, dict[str, dict[str, float | None]]] = json.loads(TABLE_FILE.read_text())
    return table


#: Share of simulated nights that show the sizes of the table. It is above 0.9, so that real nights
#: reach 0.9 although the simulation is a sample.
POWER = 0.92
#: Least spread of runs. Runs that are all alike would have a spread of 0.
_MIN_SPREAD = 1e-9
#: Number of baseline runs of a pair with which the treated run is compared.
_BASELINE_RUN_COUNTS: dict[Statement, int] = {"slower": 2, "above_control": 1, "within": 2}


def size_by_student(interim: InterimAnalysis, hypotheses: int, statement: Statement) -> float:
    """Return the size that an interim analysis shows without carry-over, by Student's t."""
    from scipy import special

    # For 'no effect', both one-sided tests must be significant.
    power = (1 + POWER) / 2 if statement == "within" else POWER
    error_level = interim.share * ERROR_LEVELS[statement] / hypotheses
    quantiles = special.stdtrit(interim.pairs - 1, [1 - error_level, power])
    return float(quantiles.sum()) * math.sqrt(
        (1 + 1 / _BASELINE_RUN_COUNTS[statement]) / interim.pairs
    )
