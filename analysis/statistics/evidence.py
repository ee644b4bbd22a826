"""Tests of whether treated runs take longer, at interim analyses (docs/method.md#evidence).

A pair has one treated run and its baseline runs, in random order. If the treatment multiplies
times by `ratio`, and the treated time is divided by `ratio`, each run of a pair is equally likely
to be the treated run. The p value is the exact chance, over all exchanges of runs within pairs,
that the rank sum of the treated runs is at least as large as measured (aligned ranks:
docs/method.md#slowdown).

In descriptions of p values, the sentence in quotes is the null hypothesis. A small p value speaks
against it.

Interim analyses take place at 6, 8, 12, 16, 24, 32, 48, ... pairs, without end. Each analysis
spends a quarter of the error that remains; this is its share. The p value of a case is therefore
the least of (p value of an analysis / its share).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from analysis.statistics.aligned_ranks import Values
from analysis.statistics.interval import CONFIDENCE, MIN_VALUES, UPPER_PROBABILITY, Estimate

#: Pairs of the second interim analysis. The pairs of the first and of the second analysis are
#: doubled in turn to give the pairs of all later analyses.
_SECOND_ANALYSIS_PAIRS = 8
#: Part of the remaining error that an interim analysis spends.
_SPENT_SHARE = 0.25
#: Maximum number of pairs for which the exact distribution is used. For more pairs, the normal
#: distribution is used.
_MAX_EXACT_PAIRS = 64
#: Decimal places to which aligned logarithms are rounded, so that equal times share a rank.
_DECIMAL_PLACES = 12
#: Smallest spread that t statistics use as a divisor. The spread of identical runs is 0.
_MIN_SPREAD = 1e-9


class InterimAnalysis(NamedTuple):
    """An interim analysis: the number of pairs that it uses, and its share of the error."""

    pairs: int
    share: float


def interim_analyses(pairs: int) -> Iterator[InterimAnalysis]:
    """Yield the interim analyses that use at most `pairs` pairs: 6, 8, 12, 16, 24, 32, 48, ..."""
    for step in count():
        doublings = step // 2
        used_pairs = (_SECOND_ANALYSIS_PAIRS if step % 2 else MIN_VALUES) * 2**doublings
        if used_pairs > pairs:
            return
        yield InterimAnalysis(used_pairs, _SPENT_SHARE * (1 - _SPENT_SHARE) ** step)


def pairs_of_next_interim(pairs: int) -> int:
    """Pairs of the first interim analysis that uses `pairs` or more."""
    return next(
        interim.pairs
        for interim in interim_analyses(2 * max(pairs, MIN_VALUES))
        if interim.pairs >= pairs
    )


def p_longer(log_times: Values, ratio: float = 1.0) -> float:
    """The p value of 'the treated run takes at most `ratio` times as long'.

    `log_times`: natural logarithms of times, a row per pair, at least two pairs. The treated run
    comes first, then the baseline runs. A missing baseline run is NaN, but each pair has at least
    one.
    """
    from scipy import special

    ranks = _ranks(log_times, ratio)
    scores = ranks - np.nanmean(ranks, axis=1, keepdims=True)
    treated_scores = scores[:, 0]
    if len(ranks) > _MAX_EXACT_PAIRS:
        deviation = math.sqrt(float(np.nanmean(scores**2, axis=1).sum()))
        exchange_p = float(special.ndtr(-treated_scores.sum() / deviation)) if deviation else 1.0
    else:
        exchange_p = _share_of_exchanges(ranks)
    # If the treatment widens the spread, runs are not exchangeable. So the larger of this p value
    # and Student's is returned.
    spread = max(float(treated_scores.std(ddof=1)), _MIN_SPREAD)
    t = float(treated_scores.mean()) * math.sqrt(len(treated_scores)) / spread
    return max(exchange_p, float(special.stdtr(len(treated_scores) - 1, -t)))


def p_shorter(log_times: Values, ratio: float = 1.0) -> float:
    """The p value of 'the treated run takes at least `ratio` times as long'; see `p_longer`."""
    return p_longer(-log_times, 1 / ratio)


def p_outside_margin(log_times: Values, margin: float) -> float:
    """The p value of 'the treated run is slower, or faster, by `margin` or more'."""
    return max(p_shorter(log_times, 1 + margin), p_longer(log_times, 1 / (1 + margin)))


def p_outside_margin_between_bounds(log_times: Values, margin: float) -> float:
    """The same as `p_outside_margin`, if the loss is only known to lie between two bounds.

    `log_times`: shape (pairs, 2, runs), with the smallest loss, then with the largest one.
    """
    smallest_loss, largest_loss = log_times[:, 0], log_times[:, 1]
    return max(p_shorter(largest_loss, 1 + margin), p_longer(smallest_loss, 1 / (1 + margin)))


def p_over_interims(log_times: Values, test: Callable[[Values], float]) -> float:
    """The p value of a case over its interim analyses; 1 if it has too few pairs for an analysis.

    `test` computes the p value of one analysis from its pairs, for example `p_longer`. The pairs
    are in order of time.
    """
    interim_p = [
        test(log_times[: interim.pairs]) / interim.share
        for interim in interim_analyses(len(log_times))
    ]
    return min([1.0, *interim_p])


def p_different(log_times: Values) -> float:
    """The two-sided p value of 'no difference': twice the smaller of the one-sided p values."""
    return min(1.0, 2 * min(p_over_interims(log_times, test) for test in (p_longer, p_shorter)))


def count_levels_shown(ladders: Sequence[Sequence[float]], error_level: float) -> list[int]:
    """Return how many levels of each ladder are shown (Holm 1979).

    `error_level` bounds the chance that any level of any ladder is shown wrongly. A ladder has the
    p values (`p_over_interims`) of the levels of one hypothesis, in the order of their tests. The
    p value of a level that was not measured is 1. A level is tested if all levels before it are
    shown. If all levels of a ladder are shown, its part of the error passes to the other ladders.
    """
    counts = [0] * len(ladders)
    while True:
        open_indices = [index for index, p in enumerate(ladders) if counts[index] < len(p)]
        newly_shown = [
            index
            for index in open_indices
            if ladders[index][counts[index]] <= error_level / len(open_indices)
        ]
        if not newly_shown:
            return counts
        for index in newly_shown:
            counts[index] += 1


def mean_ratio(log_times: Values) -> Estimate | None:
    """Mean time of the treated runs / mean time of their baseline runs; None below six pairs.

    The interval is Student's t. It does not cover slow outliers that did not occur in these pairs
    (`max_unseen_share`). `log_times` is the array that `p_longer` takes.
    """
    from scipy import special

    pairs = len(log_times)
    if pairs < MIN_VALUES:
        return None
    value, error = _ratio_of_means(log_times)
    half_width = float(special.stdtrit(pairs - 1, UPPER_PROBABILITY)) * error
    return Estimate(value, value * math.exp(-half_width), value * math.exp(half_width))


def p_typical_and_mean_shorter(log_times: Values) -> float:
    """The larger of two p values: 'the typical run is not shorter' and 'the mean is not shorter'.

    If the treatment only widens skewed noise, the typical run may be faster although the mean is
    not.
    """
    from scipy import special

    value, error = _ratio_of_means(log_times)
    t = math.log(value) / max(error, _MIN_SPREAD)
    return max(p_shorter(log_times), float(special.stdtr(len(log_times) - 1, t)))


def _ratio_of_means(log_times: Values) -> tuple[float, float]:
    """The ratio of mean times, and the standard error of its logarithm."""
    times = np.exp(log_times)
    treated, baseline = times[:, 0], np.nanmean(times[:, 1:], axis=1)
    differences = treated / treated.mean() - baseline / baseline.mean()
    error = float(differences.std(ddof=1)) / math.sqrt(len(times))
    return float(treated.mean() / baseline.mean()), error


def max_unseen_share(pairs: int) -> float:
    """Largest share of slow outliers that treated runs may have, if `pairs` of them had none.

    The share is an upper bound with a confidence of 95 %.
    """
    return 1 - math.exp(math.log(1 - CONFIDENCE) / pairs)


def _ranks(log_times: Values, ratio: float) -> Values:
    """Aligned ranks: each logarithm is reduced by the mean of its pair, and the results are ranked.

    Equal results share the mean of their ranks. The rank of a missing run is NaN.
    """
    aligned = log_times.copy()
    aligned[:, 0] -= math.log(ratio)
    aligned -= np.nanmean(aligned, axis=1, keepdims=True)
    is_present = ~np.isnan(aligned)
    _, tie_indices, tie_sizes = np.unique(
        aligned[is_present].round(_DECIMAL_PLACES), return_inverse=True, return_counts=True
    )
    ranks = np.full(aligned.shape, np.nan)
    ranks[is_present] = (tie_sizes.cumsum() - (tie_sizes - 1) / 2)[tie_indices]
    return ranks


def _share_of_exchanges(ranks: Values) -> float:
    """Share of all exchanges whose rank sum is at least the treated runs' sum (first column).

    An exchange chooses one run of each pair. Each sum is represented by its deficit: its difference
    from the largest possible sum. Only deficits up to the treated runs' deficit are counted. These
    are few if the treated runs' sum is large.
    """
    # Ranks are multiples of 1/2, so that doubled deficits are whole numbers.
    deficits = (2 * (np.nanmax(ranks, axis=1, keepdims=True) - ranks)).round()
    max_deficit = int(deficits[:, 0].sum())
    # Chance of each deficit of the pairs so far, up to `max_deficit`.
    chances = np.zeros(max_deficit + 1)
    chances[0] = 1.0
    for pair_deficits in deficits.tolist():
        run_deficits = [int(deficit) for deficit in pair_deficits if not math.isnan(deficit)]
        sums_of_chances = np.zeros_like(chances)
        for deficit in run_deficits:
            if deficit <= max_deficit:
                sums_of_chances[deficit:] += chances[: max_deficit + 1 - deficit]
        chances = sums_of_chances / len(run_deficits)
    return float(min(1.0, chances.sum()))
