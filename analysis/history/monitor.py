"""The watch over one machine: each series with its baseline, sum and changes, night by night.

Everything on a night follows from the nights before it, so that a later look at the same table
finds the same changes on the same nights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np
from numpy.typing import NDArray

from analysis.history.series import Series, nights_a_year

# A one-sided CUSUM over the nights of a series, and its limit by resampling that series.
#
# Values are logarithms, so that differences are relative; larger is worse. The baseline of a series
# is the level and the spread of its last nights. A night's score is its distance from the level in
# spreads, clipped, so that one bad night alone raises no alarm; most of an extreme night counts
# only with the next one. The sum of the scores less an allowance, never below zero, is compared
# with the limit (Page 1954, Biometrika 41, 100-115).
#
# The limit comes from the series itself: moving blocks of its nights are drawn to make histories
# without a change (Künsch 1989, Annals of Statistics 17, 1217-1241), each with a baseline of its
# own from as many nights. They contain the shape of the noise, dependence between neighbouring
# nights, and the uncertainty of a baseline.


Values = NDArray[np.float64]

#: A detectable change is found within so many measured nights, with at least this probability.
WITHIN_NIGHTS = 5
POWER = 0.8
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


# When the present level of a series began: the split with the largest energy distance.
#
# E-divisive (Matteson and James 2014, Journal of the American Statistical Association 109, 334-345)
# without its permutation test: it dates a change that is known, and finds none.


#: Fewest nights of a part.
FEWEST = 2


def latest_change(values: Values) -> int:
    """Where the last level began of values that are known to have changed, by index."""
    return FEWEST + int(np.argmax(energies(values)))


def energies(values: Values) -> Values:
    """Scaled energy distance between the first values and the others, by number from `FEWEST`.

    With m first and n other values it is m n / (m + n) times: twice the mean distance between both
    parts, less the mean distances within each.
    """
    size = len(values)
    sums = np.abs(values[:, None] - values).cumsum(axis=0).cumsum(axis=1)
    first = np.arange(FEWEST, size - FEWEST + 1)
    others = size - first
    within = np.diagonal(sums)[first - 1]
    cross = sums[first - 1, -1] - within
    inside = sums[-1, -1] - 2 * cross - within
    mean = 2 * cross / (first * others)
    mean -= within / (first * (first - 1)) + inside / (others * (others - 1))
    scaled: Values = mean * first * others / size
    return scaled


#: Nights of a baseline: fewest, and most, so that the baseline follows slow drift.
FEWEST_NIGHTS = 30
MOST_NIGHTS = 180
#: Baselines and limit are renewed every second Monday.
RENEWED_DAYS = 14
#: A change is dated within so many last nights.
_DATED_NIGHTS = 60
#: False alarms in a year over all series of a machine.
FALSE_ALARMS_A_YEAR = 0.5


@dataclass(frozen=True)
class Baseline:
    """What nights are compared with. `first` and `end` are the range of its nights in a series."""

    level: float
    spread: float
    limit: float
    first: int
    end: int


@dataclass(frozen=True)
class Found:
    """A change of level. `noticed` and `since` are nights of the series, by index."""

    noticed: int
    since: int
    worse: bool
    baseline: Baseline


@dataclass
class Followed:
    """A series, followed up to some night."""

    series: Series
    found: list[Found] = field(default_factory=list)
    baseline: Baseline | None = None
    #: The first baseline of all.
    first: Baseline | None = None
    #: Of the sums for the worse and for the better (`cusum.added`).
    state: Values = field(default_factory=lambda: np.zeros((3, 2)))
    #: First night of the next baselines, and the next night to look at.
    start: int = 0
    next: int = 0

    def window(self) -> Values | None:
        """The last nights at the present level; None if there are too few for a baseline."""
        values = self.series.worse[self.start : self.next][-MOST_NIGHTS:]
        return values if len(values) >= FEWEST_NIGHTS else None

    def renew(self, window: Values, limit: float) -> None:
        """Take a new baseline from the nights before the next one."""
        level, spread = baseline(window)
        first = self.next - len(window)
        self.baseline = Baseline(float(level), float(spread), limit, first, self.next)
        self.first = self.first or self.baseline

    def step(self) -> None:
        """Look at the next night."""
        at = self.next
        self.next += 1
        if self.baseline is None:
            return
        base = self.baseline
        worse = (float(self.series.worse[at]) - base.level) / base.spread
        self.state = added(self.state, np.array([worse, -worse]))
        if self.state[0].max() >= base.limit:
            self._restart(at, worse=bool(self.state[0, 0] >= base.limit), base=base)

    def _restart(self, at: int, *, worse: bool, base: Baseline) -> None:
        """Begin anew after this night.

        The nights since the change were selected by being bad or good, so they would bias a new
        baseline: after an improvement that is none, usual nights would look worse.
        """
        first = max(self.start, at + 1 - _DATED_NIGHTS)
        since = first + latest_change(self.series.worse[first : at + 1])
        self.found.append(Found(at, since, worse, base))
        self.baseline, self.start = None, at + 1
        self.state = np.zeros((3, 2))


def follow(series: Sequence[Series]) -> list[Followed]:
    """Follow all series of one machine through all nights."""
    followed = [Followed(each) for each in series]
    days = [night.toordinal() for each in series for night in each.nights]
    if days:
        advance(followed, min(days), max(days))
    return followed


def advance(followed: Sequence[Followed], first: int, last: int) -> None:
    """Look at the nights of a machine's series up to the day `last`; all before `first` are done.

    Days are ordinals. A period is begun with new baselines, whose limit holds for all series.
    """
    for begin in range(_period(first), last + 1, RENEWED_DAYS):
        if begin >= first:
            _renew(followed, begin)
        for each in followed:
            nights = each.series.nights
            until = min(begin + RENEWED_DAYS, last + 1)
            while each.next < len(nights) and nights[each.next].toordinal() < until:
                each.step()


def _period(day: int) -> int:
    """The first day of the period that a day is in; ordinal 1 is a Monday."""
    return day - (day - 1) % RENEWED_DAYS


def _renew(followed: Sequence[Followed], day: int) -> None:
    windows = {at: w for at, each in enumerate(followed) if (w := each.window()) is not None}
    if not windows:
        return
    a_year = nights_a_year([each.series for each in followed], date.fromordinal(day))
    a_night = FALSE_ALARMS_A_YEAR / a_year
    limit = common_limit(list(windows.values()), a_night, seed=day)
    for at, window in windows.items():
        followed[at].renew(window, limit)


def detectable(series: Series, base: Baseline) -> float | None:
    """The loss of a series that is found soon with a baseline, as a share (`SeriesWatch`)."""
    values = series.worse[base.first : base.end]
    spreads = detectable_spreads(values, base.limit, seed=base.end)
    return None if spreads is None else float(np.expm1(spreads * base.spread))
