"""Evidence that may be looked at after every pair: e-values (docs/method.md#evidence).

**The typical run** (`longer`). Before each pair the bettor stakes on the sign of the difference of
logarithms, and gains 2 / (1 + exp(-2 b u)), where u is the difference over the median size of all
so far, at most 1.5 either way. Four bettors have different b; the one on large effects has most of
the money, so that six pairs out of six decide. Two baseline runs a pair give two bets, and their
mean.

**The mean** (`mean_longer`). Before each pair the bettor stakes up to 0.9 of what the worst pair
could cost. That needs bounds: a run is taken to last at most half as long again as the typical one,
or as the longest seen, and not less than the shortest seen; so this holds as simulated
(`python -m studies.verdicts`), not exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate

Values = NDArray[np.float64]

#: Bets on the sign, and the money on each.
_BETS = np.array([5.0, 1.5, 0.75, 0.35])
_MONEY = np.array([0.8, 0.07, 0.07, 0.06])
#: A difference counts as at most so many typical ones.
_MOST_TYPICAL = 1.5
#: Pairs from which the typical difference is taken; it is kept for later ones.
_SCALED_BY = 500
#: How much longer than the typical one a single run is taken to last at most.
LARGEST_HIT = 0.5
#: Bets on the mean, as shares of all money over what the worst pair could cost; the money on each.
_SHARES = np.array([0.9, 0.3, 0.1, 0.03])
_MONEY_OF_SHARES = np.array([0.8, 0.08, 0.06, 0.06])
#: Width of the range in which a bound is sought, a factor of exp(5); most steps, and when to stop.
_WIDEST, _STEPS, _NEAR = 5.0, 60, 1e-12
#: Least cost of the worst pair.
_LEAST_COST = 0.01
#: Largest logarithm of an e-value; JSON has no infinity.
_MOST_LOG = 690.0


def pairs_until(needed: float, found: float, pairs: int) -> int | None:
    """More pairs until evidence that grew to `found` in `pairs` is `needed`, if it grows as before.

    None if it has not grown, or is there, or is no number, as of figures beyond all.
    """
    if not 1 < found < needed:
        return None
    return math.ceil(pairs * math.log(needed / found) / math.log(found))


def longer(log_times: Values, ratio: float = 1.0) -> float:
    """Evidence that the typical treated run takes more than `ratio` times as long.

    `log_times`: natural logarithms of times, shape (pairs, runs), in order of time; first the
    treated run, then the baseline runs, NaN where one is missing. For 'shorter', give the negative
    of both logarithms.
    """
    found = []
    for baseline in log_times[:, 1:].T:
        apart = log_times[:, 0] - baseline - np.log(ratio)
        found.append(float(signs(apart[~np.isnan(apart)])[-1:].sum()) if len(apart) else 1.0)
    return float(np.mean(found)) if found else 1.0


def shorter(log_times: Values, ratio: float = 1.0) -> float:
    """Evidence that the typical treated run takes less than `ratio` times as long."""
    return longer(-log_times, 1 / ratio)


def signs(apart: Values) -> Values:
    """Evidence after each pair that the differences `apart`, shape (..., pairs), are positive."""
    sizes = np.abs(apart[..., :_SCALED_BY])
    done = np.arange(sizes.shape[-1])
    # Row by row the sizes so far in order, then infinity; the middle two are the median's.
    so_far = np.sort(np.where(np.tri(len(done), dtype=bool), sizes[..., None, :], np.inf), axis=-1)
    scale = np.empty_like(apart)
    scale[..., : len(done)] = (so_far[..., done, done // 2] + so_far[..., done, -(-done // 2)]) / 2
    scale[..., _SCALED_BY:] = scale[..., _SCALED_BY - 1 : _SCALED_BY]
    typical = np.divide(apart, scale, out=np.zeros_like(apart), where=scale > 0)
    typical = np.clip(typical, -_MOST_TYPICAL, _MOST_TYPICAL)
    gains = np.log(2) - np.logaddexp(0, -2 * typical[..., None] * _BETS)
    return _weighted(gains.cumsum(axis=-2), _MONEY)


def mean_longer(log_times: Values, ratio: float = 1.0) -> float:
    """Evidence that the mean treated run takes more than `ratio` times as long.

    `log_times` as for `longer`, relative to the typical baseline run.
    """
    return float(_Means(log_times).evidence(np.array(ratio), 1))


def mean_shorter(log_times: Values, ratio: float = 1.0) -> float:
    """Evidence that the mean treated run takes less than `ratio` times as long."""
    return float(_Means(log_times).evidence(np.array(ratio), -1))


def mean_ratio(log_times: Values, family: int = 1) -> Estimate | None:
    """Mean time of the treated runs / of their baselines; None below six pairs.

    The interval holds every ratio against which the evidence on either side has stayed below
    40 x `family`: at least 95 % at any look, for all effects of the family together.
    """
    if len(log_times) < FEWEST:
        return None
    low, value, high = (float(each) for each in mean_ratios(log_times, family))
    return Estimate(value, low, high, CONFIDENCE)


def mean_ratios(log_times: Values, family: int = 1) -> Values:
    """Low end, estimate and high end of ratios of means, shape (3, ...)."""
    means, most = _Means(log_times), 2 * family / (1 - CONFIDENCE)
    return np.stack([means.bound(1, most), means.ratio, means.bound(-1, most)])


class _Means:
    """Times of pairs, shape (..., pairs), relative to the typical baseline run."""

    def __init__(self, log_times: Values) -> None:
        times = np.exp(log_times)
        self.treated, baselines = times[..., 0], times[..., 1:]
        self.baseline = np.nanmean(baselines, axis=-1)
        self.ratio: Values = self.treated.mean(axis=-1) / self.baseline.mean(axis=-1)
        typical = np.median(self.treated, axis=-1)
        self.longest = np.maximum(self.treated.max(axis=-1), typical * (1 + LARGEST_HIT))
        self.shortest = self.treated.min(axis=-1)
        self.longest_baseline = np.maximum(np.nanmax(baselines, axis=(-2, -1)), 1 + LARGEST_HIT)
        self.shortest_baseline = np.nanmin(baselines, axis=(-2, -1))

    def evidence(self, ratio: Values, side: int) -> Values:
        """That the ratio of means is above (`side` 1) or below (-1) `ratio`."""
        if side > 0:
            cost = self.longest_baseline - self.shortest / ratio
        else:
            cost = self.longest / ratio - self.shortest_baseline
        apart = self.treated / ratio[..., None] - self.baseline
        apart *= side / np.maximum(cost, _LEAST_COST)[..., None]
        # One bet after another: arrays of all bets together take four times as long.
        logs = [np.log(np.maximum(1 + share * apart, 1e-12)).sum(axis=-1) for share in _SHARES]
        return _weighted(np.stack(logs, axis=-1), _MONEY_OF_SHARES)

    def bound(self, side: int, most: float) -> Values:
        """The ratio against which the evidence is `most`: regula falsi, halving an end that stays.

        (Dowell and Jarratt 1971, BIT 11, 168-174.)
        """

        def beyond(at: Values) -> Values:
            return np.asarray(np.arcsinh(np.log(self.evidence(np.exp(at), side) / most)))

        inside = np.log(self.ratio)
        at = outside = inside - side * _WIDEST
        low, high = beyond(inside), np.maximum(beyond(outside), 1e-300)
        was_held = np.full(inside.shape, fill_value=False)
        for step in range(_STEPS):
            last, at = at, (inside * high - outside * low) / (high - low)
            if not (np.abs(at - last) > _NEAR).any():
                break
            found = beyond(at)
            held = found < 0
            stays = np.where((held == was_held) & (step > 0), 2, 1)
            low, high = np.where(held, found, low / stays), np.where(held, high / stays, found)
            inside, outside = np.where(held, at, inside), np.where(held, outside, at)
            was_held = held
        return np.exp(np.where(np.isnan(at), inside, at))


def pairs_to_bound(margin: float, evidence: float) -> int:
    """Pairs, none of them hit, after which `evidence` may show a mean within `margin`."""
    gain = np.log1p(_SHARES[0] * margin / (LARGEST_HIT - margin)) if margin < LARGEST_HIT else 1.0
    return int(np.ceil(np.log(evidence / _MONEY_OF_SHARES[0]) / gain))


def _weighted(logs: Values, money: Values) -> Values:
    """The sum over the last axis of the money on each bet times what it has become."""
    most = logs.max(axis=-1, keepdims=True)
    total = most[..., 0] + np.log((np.exp(logs - most) * money).sum(axis=-1))
    return np.asarray(np.exp(np.minimum(total, _MOST_LOG)))


def over_family(values: Sequence[float], asked: int) -> list[float]:
    """E-values that hold for all of a family of `asked` hypotheses together, in the order given.

    Closed testing with the mean of e-values (Vovk and Wang 2021, Annals of Statistics 49,
    1736-1754): each is the least mean of itself and any of the others. Hypotheses that were asked
    and have no value yet count as 0. The chance that any true one ever reaches 1 / a is at most a,
    whatever their dependence.
    """
    others = np.sort([*values, *[0.0] * (asked - len(values))])
    sums, counts = others.cumsum(), np.arange(1, len(others) + 1)
    # With the smallest others: if the value is itself among these, the mean is that of fewer.
    return [float(min(value, ((sums + value) / (counts + 1)).min())) for value in values]
