"""Tests of whether treated runs take longer, at interim analyses (docs/method.md#evidence).

A pair holds one treated run and its baseline runs, in random order. If the treatment multiplies
times by `ratio`, dividing the treated time by it makes the runs of a pair exchangeable: each of
them is as likely to be the treated one. The p value is the exact chance, over all exchanges, of a
rank sum of the treated runs as large as that measured (aligned ranks: docs/method.md#slowdown).

Pairs are analysed at 6, 8, 12, 16, 24, 32, 48, ... of them, without end. Each interim analysis
spends a quarter of the error that is left, so a case's p value is the least of (p value of an
analysis / its share).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from analysis.statistics.aligned_ranks import Values
from analysis.statistics.interval import CONFIDENCE, MIN_VALUES, UPPER_PROBABILITY, Estimate

#: Part of the error left that an interim analysis spends.
_SPENT = 0.25
#: With more pairs, the normal distribution stands for the exact one.
_MOST_EXACT = 64
#: Digits of aligned logarithms, so that times which are alike share a rank.
_DIGITS = 12
#: Least spread of scores, in ranks: that of scores which are all alike is 0.
_LEAST_SPREAD = 1e-9


class InterimAnalysis(NamedTuple):
    """An interim analysis: the number of pairs that it uses, and its share of the error."""

    pairs: int
    share: float


def interim_analyses(pairs: int) -> Iterator[InterimAnalysis]:
    """The interim analyses of up to so many pairs: 6, 8, 12, 16, 24, 32, 48, ..."""
    step = 0
    while (first := (8 if step % 2 else MIN_VALUES) << step // 2) <= pairs:
        yield InterimAnalysis(first, _SPENT * (1 - _SPENT) ** step)
        step += 1


def pairs_of_next_interim(pairs: int) -> int:
    """Pairs of the first interim analysis of so many pairs or more."""
    return next(
        interim.pairs
        for interim in interim_analyses(2 * max(pairs, MIN_VALUES))
        if interim.pairs >= pairs
    )


def p_longer(log_times: Values, ratio: float = 1.0) -> float:
    """Chance of such pairs, or of clearer ones, if the treated run takes `ratio` times as long.

    `log_times`: natural logarithms of times, a row per pair; first the treated run, then the
    baseline runs, NaN where one is missing (not all). At least two pairs.
    """
    from scipy import special

    ranks = _ranks(log_times, ratio)
    scores = ranks - np.nanmean(ranks, axis=1, keepdims=True)
    treated = scores[:, 0]
    if len(ranks) > _MOST_EXACT:
        deviation = math.sqrt(float(np.nanmean(scores**2, axis=1).sum()))
        exchanged = float(special.ndtr(-treated.sum() / deviation)) if deviation else 1.0
    else:
        exchanged = _share_of_exchanges(ranks)
    # Exchange fails if the treatment widens the spread, so Student's p must be as small.
    spread = max(float(treated.std(ddof=1)), _LEAST_SPREAD)
    t = float(treated.mean()) * math.sqrt(len(treated)) / spread
    return max(exchanged, float(special.stdtr(len(treated) - 1, -t)))


def p_shorter(log_times: Values, ratio: float = 1.0) -> float:
    """The same as `p_longer`, for pairs in which the treated run is clearly shorter."""
    return p_longer(-log_times, 1 / ratio)


def p_outside_margin(log_times: Values, margin: float) -> float:
    """Chance of such pairs if the treated run is slower, or faster, by `margin` or more."""
    return max(p_shorter(log_times, 1 + margin), p_longer(log_times, 1 / (1 + margin)))


def p_outside_margin_for_both(log_times: Values, margin: float) -> float:
    """The same as `p_outside_margin`, if the loss is only known to lie between two bounds.

    `log_times`: shape (pairs, 2, runs); first with the smallest loss, then with the largest one.
    """
    smallest, largest = log_times[:, 0], log_times[:, 1]
    return max(p_shorter(largest, 1 + margin), p_longer(smallest, 1 / (1 + margin)))


def p_over_interims(log_times: Values, test: Callable[[Values], float]) -> float:
    """The p value of a case by a test of its pairs, such as `p_longer`; 1 without an analysis.

    The pairs are in order of time.
    """
    interim_p = [
        test(log_times[: interim.pairs]) / interim.share
        for interim in interim_analyses(len(log_times))
    ]
    return min([1.0, *interim_p])


def is_shown(log_times: Values, test: Callable[[Values], float], level: float) -> bool:
    """Return whether `p_over_interims` is at most `level`; in less time."""
    last_first = sorted(interim_analyses(len(log_times)), reverse=True)
    return any(test(log_times[: interim.pairs]) <= interim.share * level for interim in last_first)


def p_different(log_times: Values) -> float:
    """`p_over_interims` against no difference either way: twice the smaller p value of one side."""
    return min(1.0, 2 * min(p_over_interims(log_times, test) for test in (p_longer, p_shorter)))


def count_levels_shown(cases: Sequence[Sequence[float]], level: float) -> list[int]:
    """Return the number of levels shown of each case, at an error of `level` over all (Holm 1979).

    `cases`: p values of the levels of each (`p_over_interims`), the strongest level first; 1 if not
    measured. A level is tested once the stronger ones are shown. A case whose levels are all shown
    passes its error on to the others.
    """
    levels = [0] * len(cases)
    while True:
        left = [index for index, case in enumerate(cases) if levels[index] < len(case)]
        more = [index for index in left if cases[index][levels[index]] <= level / len(left)]
        if not more:
            return levels
        for index in more:
            levels[index] += 1


def mean_ratio(log_times: Values) -> Estimate | None:
    """Mean time of the treated runs / of their baselines: Student's t; None below six pairs.

    `log_times` as for `p_longer`. The interval covers what such pairs show; hits that none of them
    met are beyond it (`max_unseen_share`).
    """
    from scipy import special

    pairs = len(log_times)
    if pairs < MIN_VALUES:
        return None
    value, error = _mean(log_times)
    half = float(special.stdtrit(pairs - 1, UPPER_PROBABILITY)) * error
    return Estimate(value, value * math.exp(-half), value * math.exp(half))


def p_typical_and_mean_shorter(log_times: Values) -> float:
    """`p_shorter`, of the typical run and of the mean.

    Of noise that only widens, and has no symmetry, the typical run may be faster, and no mean is.
    """
    from scipy import special

    value, error = _mean(log_times)
    t = math.log(value) / max(error, _LEAST_SPREAD)
    return max(p_shorter(log_times), float(special.stdtr(len(log_times) - 1, t)))


def _mean(log_times: Values) -> tuple[float, float]:
    """The ratio of mean times, and the standard error of its logarithm."""
    times = np.exp(log_times)
    treated, baseline = times[:, 0], np.nanmean(times[:, 1:], axis=1)
    apart = treated / treated.mean() - baseline / baseline.mean()
    error = float(apart.std(ddof=1)) / math.sqrt(len(times))
    return float(treated.mean() / baseline.mean()), error


def max_unseen_share(pairs: int) -> float:
    """Largest share of treated runs that may be hit although none of `pairs` was (95 %)."""
    return 1 - math.exp(math.log(1 - CONFIDENCE) / pairs)


def _ranks(log_times: Values, ratio: float) -> Values:
    """Aligned ranks: of logarithms less the mean of their pair; NaN for a run that is missing.

    Equal ones share the mean of their ranks.
    """
    aligned = log_times.copy()
    aligned[:, 0] -= math.log(ratio)
    aligned -= np.nanmean(aligned, axis=1, keepdims=True)
    present = ~np.isnan(aligned)
    _, position, runs = np.unique(
        aligned[present].round(_DIGITS), return_inverse=True, return_counts=True
    )
    ranks = np.full(aligned.shape, np.nan)
    ranks[present] = (runs.cumsum() - (runs - 1) / 2)[position]
    return ranks


def _share_of_exchanges(ranks: Values) -> float:
    """Share of all exchanges, one run of each pair, with as large a sum of ranks as the first.

    Counted by how much sums fall short of the largest one, which is little if the first is large.
    """
    short = (2 * (np.nanmax(ranks, axis=1, keepdims=True) - ranks)).round()
    most = int(short[:, 0].sum())
    chances = np.zeros(most + 1)
    chances[0] = 1.0
    for pair in short.tolist():
        steps = [int(step) for step in pair if step == step]
        summed = np.zeros_like(chances)
        for step in steps:
            if step <= most:
                summed[step:] += chances[: most + 1 - step]
        chances = summed / len(steps)
    return float(min(1.0, chances.sum()))
