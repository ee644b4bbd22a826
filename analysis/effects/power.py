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

#: The statement that the pairs must show: a loss, a loss that is also above the control, or 'no
#: effect'. Runs of the control are assumed to take as long as runs of the baseline.
Statement = Literal["slower", "above_control", "within"]

TABLE_FILE = Path(__file__).with_suffix(".json")
#: Largest number of pairs that is considered.
MAX_PAIRS = 2000
#: Share of baseline runs that come right after writes, in the simulated nights of the table. Each
#: pair of these nights has the arms `off`, `on` and `aa` (`off` repeated).
_AFTER_WRITES_SHARE = 4 / 9


def min_loss(
    pairs: int,
    hypotheses: int,
    after_writes_share: float = _AFTER_WRITES_SHARE,
    *,
    controlled: bool,
) -> float | None:
    """Return the smallest loss that `pairs` pairs show, if the other hypotheses show nothing.

    None if so few pairs cannot show any loss. `after_writes_share`: share of baseline runs that
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
    """Return the number of pairs at the first interim analysis that can show 'no effect'.

    None if this takes more than `MAX_PAIRS`. `margin` is in spreads. `after_writes_share` has the
    same meaning as in `min_loss`.
    """
    for interim in interim_analyses(MAX_PAIRS):
        size = _min_size(interim, hypotheses, after_writes_share, "within")
        if size is not None and size <= margin:
            return interim.pairs
    return None


def pairs_to_decide(row: Result) -> int | None:
    """Return the number of pairs with which 90 % of nights decide an effect.

    The effect is assumed to be as large as estimated. The decision is:

    - a loss against the control, if the verdict is 'not above the control'
    - otherwise 'no effect', if the estimate lies within the margin
    - otherwise a change beyond the margin. A speed-up is assumed to need as many pairs as a loss of
      the same ratio

    None if `MAX_PAIRS` are too few, or if an end of the slowdown's interval is 0 or infinite. The
    spread of runs is derived from this interval. `row` must have a slowdown.
    """
    assert row.slowdown
    if not 0 < row.slowdown.low <= row.slowdown.high < math.inf:
        return None
    change, margin = abs(math.log(row.slowdown.value)), math.log1p(row.margin)
    spread = _spread(row)
    if row.verdict is Verdict.NOT_ABOVE_CONTROL and row.over_control:
        # The treatment is already shown to be slower than its baseline, so 'no effect' is excluded.
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
    """Return the spread of runs, at least `_MIN_SPREAD`.

    It is derived as if the slowdown's interval had been computed by Student's t.
    """
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

    Only a baseline and the treatments paired with it are considered. They have `runs` runs in each
    pair, and `effects` of these runs have writes.
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
    """Return the smallest effect that an interim analysis shows; None if it cannot show any.

    The size is read from the table's column for `hypotheses` or, if there is none, for the next
    larger number. For more hypotheses or pairs than the table has, it follows from Student's t.
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
    # The sizes in the table already include the allowance for the simulated nights.
    return size + max(0.0, allowance - table_allowance) / sqrt_pairs


@cache
def _table() -> dict[str, dict[str, dict[str, float | None]]]:
    """Return statement -> pairs of an interim analysis -> hypotheses -> smallest size shown."""
    table: dict[str, dict[str, dict[str, float | None]]] = json.loads(TABLE_FILE.read_text())
    return table


#: Share of the simulated nights in which an effect of the table's size is shown. It is above 0.9,
#: so that real nights reach 0.9 in spite of the simulation's sampling error.
POWER = 0.92
#: Smallest spread of runs. Without it, identical runs would have a spread of 0.
_MIN_SPREAD = 1e-9
#: Number of baseline runs of a pair with which the treated run is compared.
_BASELINE_RUN_COUNTS: dict[Statement, int] = {"slower": 2, "above_control": 1, "within": 2}


def size_by_student(interim: InterimAnalysis, hypotheses: int, statement: Statement) -> float:
    """Return the smallest effect that an interim analysis shows, by Student's t.

    It is assumed that there is no carry-over.
    """
    from scipy import special

    # For 'no effect', both one-sided tests must be significant.
    power = (1 + POWER) / 2 if statement == "within" else POWER
    error_level = interim.share * ERROR_LEVELS[statement] / hypotheses
    quantiles = special.stdtrit(interim.pairs - 1, [1 - error_level, power])
    return float(quantiles.sum()) * math.sqrt(
        (1 + 1 / _BASELINE_RUN_COUNTS[statement]) / interim.pairs
    )
