"""How often runs are hit, and how much longer the slowest tenth takes.

A run is hit if it takes longer than the typical run of its treatment by more than the margin, and
by more than four standard deviations, taken from the median distance to the median (1.4826 of it,
for normal noise). The share of runs hit has the interval of Clopper and Pearson (1934).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate
from analysis.statistics.nights import ratio_of_two

Values = NDArray[np.float64]

_DEVIATIONS = 4 * 1.4826
_PERCENTILE = 0.9
_TAIL = (1 - CONFIDENCE) / 2


@dataclass(frozen=True)
class Hits:
    """Shares of runs that are hit."""

    treated: Estimate
    #: Of the baseline's runs, by the same rule.
    baseline: float


def hits(log_times: Values, margin: float) -> Hits | None:
    """Shares of runs hit; None below six pairs.

    `log_times`: natural logarithms of times relative to the typical baseline run, shape (pairs,
    runs): first the treated run, then the baseline runs, NaN where one is missing.
    """
    pairs = len(log_times)
    if pairs < FEWEST:
        return None
    baselines = log_times[:, 1:][~np.isnan(log_times[:, 1:])]
    hit = int(_hit(log_times[:, 0], margin).sum())
    low = float(special.betaincinv(hit, pairs - hit + 1, _TAIL)) if hit else 0.0
    high = float(special.betaincinv(hit + 1, pairs - hit, 1 - _TAIL)) if hit < pairs else 1.0
    return Hits(Estimate(hit / pairs, low, high, CONFIDENCE), float(_hit(baselines, margin).mean()))


def _hit(logs: Values, margin: float) -> NDArray[np.bool_]:
    above = logs - np.median(logs)
    return np.asarray(above > max(np.log1p(margin), _DEVIATIONS * np.median(np.abs(above))))


def slowest_tenth(log_times: Values) -> Estimate | None:
    """90th percentile of the treated runs' times / of the baseline runs'; None below 36 pairs.

    `log_times` as for `hits`. The intervals of both percentiles are those of order statistics.
    """
    of = [_percentile(log_times[:, 0]), _percentile(log_times[:, 1:].ravel())]
    return ratio_of_two(of[0], of[1]) if of[0] and of[1] else None


def _percentile(logs: Values) -> Estimate | None:
    ordered = np.exp(np.sort(logs[~np.isnan(logs)]))
    runs = len(ordered)
    # P(B <= k) for the number B of runs below the percentile.
    below = special.bdtr(np.arange(runs), runs, _PERCENTILE) if runs else np.empty(0)
    low = int(np.searchsorted(below, _TAIL, side="right")) - 1
    high = int(np.searchsorted(below, 1 - _TAIL))
    if low < 0 or high >= runs:
        return None
    value = float(np.quantile(ordered, _PERCENTILE, method="median_unbiased"))
    return Estimate(value, float(ordered[low]), float(ordered[high]), CONFIDENCE)
