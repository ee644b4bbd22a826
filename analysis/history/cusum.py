"""A one-sided CUSUM over the nights of a series, and its limit by resampling that series.

Values are logarithms, so that differences are relative; larger is worse. The baseline of a series
is the level and the spread of its last nights. A night's score is its distance from the level in
spreads, clipped, so that one bad night alone raises no alarm; most of an extreme night counts only
with the next one. The sum of the scores less an allowance, never below zero, is compared with the
limit (Page 1954, Biometrika 41, 100-115).

The limit comes from the series itself: moving blocks of its nights are drawn to make histories
without a change (Künsch 1989, Annals of Statistics 17, 1217-1241), each with a baseline of its own
from as many nights. They contain the shape of the noise, dependence between neighbouring nights,
and the uncertainty of a baseline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.history.alarm import POWER, WITHIN_NIGHTS

Values = NDArray[np.float64]

#: Half the shift that the sum finds fastest, spreads.
ALLOWANCE = 1.0
#: Scores count up to this many spreads: one night alone adds less than any limit.
CLIP = 3.5
LEAST_LIMIT = 2.6
#: A score beyond EXTREME after a usual night is more often an outlier than a shift: it counts as
#: DOUBTED, and the rest of it with the next night, if that is beyond SUPPORT.
EXTREME = 4.0
DOUBTED = 1.5
SUPPORT = 2.0
#: Values of a baseline are clipped at this many spreads.
_BASELINE_CLIP = 3.0
#: Median absolute deviation to standard deviation, for normal values.
_MAD = 1.4826
#: Nights that are drawn together: a week.
_BLOCK = 7
#: Histories that are drawn for all series together, and watched nights of each.
_DRAWN = 3600
_WATCHED = 60
#: Shifts that are tried for the detectable change, spreads.
_SHIFTS = np.arange(0.5, 8.01, 0.1)
_SHIFTED = 100


def baseline(values: Values) -> tuple[Values, Values]:
    """Level and spread along the last axis: mean and standard deviation of the clipped values.

    They are clipped at three spreads from the median, by the median absolute deviation. Median and
    deviation themselves would be less certain: as a baseline of 30 nights is of 60.
    """
    median = np.median(values, axis=-1, keepdims=True)
    spread = _MAD * np.median(np.abs(values - median), axis=-1, keepdims=True)
    spread = np.where(spread > 0, spread, values.std(axis=-1, keepdims=True))
    clipped = np.clip(values, median - _BASELINE_CLIP * spread, median + _BASELINE_CLIP * spread)
    return clipped.mean(axis=-1), np.maximum(clipped.std(axis=-1, ddof=1), 1e-9)


def added(state: Values, scores: Values) -> Values:
    """The state of the sums after a night, (3, ...): sums, scores, and what is withheld."""
    before, score_before, withheld = state
    doubted = (scores > EXTREME) & (score_before <= SUPPORT)
    now = np.where(doubted, DOUBTED, np.clip(scores, -CLIP, CLIP))
    late = np.where(scores > SUPPORT, withheld, 0.0)
    found = np.maximum(0.0, before + now + late - ALLOWANCE)
    return np.stack([found, scores, np.where(doubted, CLIP - DOUBTED, 0.0)])


def sums(scores: Values) -> Values:
    """The sum after each night, along the last axis."""
    found = np.empty_like(scores)
    state = np.zeros((3, *scores.shape[:-1]))
    for night in range(scores.shape[-1]):
        state = added(state, scores[..., night])
        found[..., night] = state[0]
    return found


def drawn_scores(values: Values, count: int, rng: np.random.Generator) -> Values:
    """Scores of watched nights without a change, (`count`, nights), drawn from `values`."""
    length = len(values) + _WATCHED
    block = min(_BLOCK, len(values))
    starts = rng.integers(0, len(values) - block + 1, (count, math.ceil(length / block)))
    at = (starts[..., None] + np.arange(block)).reshape(count, -1)[:, :length]
    drawn = values[at]
    level, spread = baseline(drawn[:, : len(values)])
    watched: Values = drawn[:, len(values) :]
    return (watched - level[:, None]) / spread[:, None]


def common_limit(windows: Sequence[Values], alarms_a_night: float, seed: int) -> float:
    """The limit of all series, at which they raise so many alarms a night without a change.

    `windows` are the nights of their baselines. The largest sums of histories drawn from every
    series are pooled: those of one series are too few for so rare an event.
    """
    rng = np.random.default_rng(seed)
    each = max(10, _DRAWN // len(windows))
    largest = [sums(drawn_scores(values, each, rng)).max(axis=-1) for values in windows]
    chance = alarms_a_night * _WATCHED / len(windows)
    return max(LEAST_LIMIT, float(np.quantile(np.concatenate(largest), 1 - min(1.0, chance))))


def detectable_spreads(values: Values, limit: float, seed: int) -> float | None:
    """The shift that is found within `WITHIN_NIGHTS` with probability `POWER`, in spreads.

    None if a shift of 8 is not.
    """
    scores = drawn_scores(values, _SHIFTED, np.random.default_rng(seed))
    first = scores.reshape(-1, WITHIN_NIGHTS)
    for shift in _SHIFTS:
        found = sums(first + shift).max(axis=-1) >= limit
        if found.mean() >= POWER:
            return float(shift)
    return None
