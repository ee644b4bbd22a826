"""The watch over one machine: each series with its baseline, evidence and changes, by night.

Everything on a night follows from the nights before it, so that a later look at the same table
finds the same changes on the same nights.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial

import numpy as np
from numpy.typing import NDArray

from analysis.history.expected import UNKNOWN, Expectation, common, expectation
from analysis.history.tables import Series, nights_a_year

# Evidence of a change: the CUSUM of Page (1954, Biometrika 41, 100-115), in log likelihood ratios.
#
# A night's score is its distance from what is expected of it, in spreads; above 0 is worse. How
# likely one is, is learnt from the nights of all series of the machine: often the longer tail is
# the worse one. An extreme one, which is as unlikely with a step as without, is little evidence.
# The error of what is expected is the same in n nights, and the evidence of their sum
# 1 + n x variance times less (the likelihood ratio with the error integrated out).
#
# The limit comes from the machine's own nights, by a bootstrap of residuals (Efron and Tibshirani
# 1986, Statistical Science 1, 54-75) with the errors that level, spread and correlation have.
# Blocks would keep what they owe to each other, but also that a window has no alarm.


Values = NDArray[np.float64]

#: A detectable change is found within so many measured nights, with at least this probability.
WITHIN_NIGHTS = 5
POWER = 0.8
#: Steps that are looked for, equally likely, spreads.
_STEPS = (1.0, 2.0, 3.0)
#: Density of outliers, a spread: one night in fifty is one, anywhere within ten spreads.
_OUTLIERS = 0.02 / 20
#: Scores at which a density is given, so many a spread.
_A_SPREAD = 50
_GRID = np.arange(-15 * _A_SPREAD, 15 * _A_SPREAD + 1) / _A_SPREAD
#: It is learnt as if as many nights more were known, all normal.
_NORMAL_NIGHTS = 50
#: A larger step is found by so many measured nights in a row beyond EXTREME spreads.
EXTREME = 4.0
IN_A_ROW = 3
#: More evidence than one night alone can be, which is at most the latter.
LEAST_LIMIT = 5.0
_MOST_OF_A_NIGHT = 4.5
#: A night counts up to so many spreads for what the next one owes to it.
_CLIP = 3.0
#: Histories that are drawn for all series together, and watched nights of each.
_DRAWN = 1440
_WATCHED = 150
#: Shifts that are tried for the detectable change, spreads.
_SHIFTS = np.arange(0.5, 5.05, 0.1)
#: One that `IN_A_ROW` finds so soon, whatever the limit.
_SURELY = 5.1
_SHIFTED = 1200


def density(rest: Values) -> Values:
    """That of nights without a change, at `_GRID`, learnt from such nights; with outliers.

    By normal kernels as wide as Silverman proposes (1986, Density Estimation, 48).
    """
    normal = np.exp(-np.square(_GRID) / 2) / math.sqrt(2 * math.pi)
    edges = np.append(_GRID, _GRID[-1] + 1 / _A_SPREAD) - 0.5 / _A_SPREAD
    kernel = np.exp(-np.square(_GRID / (0.9 * max(1, len(rest)) ** -0.2)) / 2)
    nights = np.convolve(np.histogram(rest, edges)[0], kernel / kernel.sum(), "same") * _A_SPREAD
    return np.asarray((nights + _NORMAL_NIGHTS * normal) / (len(rest) + _NORMAL_NIGHTS) + _OUTLIERS)


def evidence(score: Values, left: float | Values, usual: Values) -> Values:
    """Log likelihood ratio of scores with a step against none.

    `left` of each of `_STEPS` is in the scores, below 0 for the better; `usual` is the `density`.
    """
    at = [(score - step * left - _GRID[0]) * _A_SPREAD for step in (0.0, *_STEPS)]
    without, *with_step = (
        usual[np.clip(np.rint(each), 0, len(_GRID) - 1).astype(np.intp)] for each in at
    )
    found = np.log(np.mean(with_step, axis=0) / without)
    return np.asarray(np.minimum(found, _MOST_OF_A_NIGHT))


#: Sum of evidence, its nights, and the nights in a row beyond `EXTREME`.
State = tuple[Values, Values, Values]


def added(state: State, score: Values, found: Values) -> State:
    """The state after a night, from that before, its score and its evidence."""
    total = np.maximum(0.0, state[0] + found)
    return total, (state[1] + 1) * (total > 0), (state[2] + 1) * (score > EXTREME)


def nothing(*shape: int) -> State:
    """The state before the first night."""
    return np.zeros(shape), np.zeros(shape), np.zeros(shape)


def largest(
    rest: Values, memory: float | Values, variance: float | Values, usual: Values
) -> Values:
    """The largest evidence over nights, (..., nights): `rest` without what they owe to another.

    `memory` is the correlation of neighbouring nights, `variance` that of what is expected,
    `usual` the `density`.
    """
    less = variance * (1 - memory) / (1 + memory)
    found = evidence(rest, _left(memory)[..., None], usual)
    state = nothing(*rest.shape[:-1])
    most = np.zeros(rest.shape[:-1])
    for night in range(rest.shape[-1]):
        state = added(state, rest[..., night], found[..., night])
        most = np.maximum(most, state[0] / (1 + state[1] * less))
    return most


def _left(memory: float | Values) -> Values:
    """The share of a step that is left in a night without what it owes to the one before."""
    return np.asarray(np.sqrt((1 - memory) / (1 + memory)))


def drawn(base: Expectation, nights: int, count: int, rng: np.random.Generator) -> Values:
    """Nights without a change, (`count`, nights), as `Expectation.rest`.

    With the errors of level, spread and correlation that so many nights have.
    """
    size = len(base.rest)
    rest = base.rest[rng.integers(0, size, (count, nights + 1))]
    usual = np.clip(base.rest, -_CLIP, _CLIP)
    tails = float((usual**4).mean() / max((usual**2).mean() ** 2, 1e-12)) - 1
    correlation, spread, level = rng.standard_normal((3, count, 1)) / math.sqrt(size)
    level *= math.sqrt(size * _variance(base) * (1 - base.correlation) / (1 + base.correlation))
    owed = correlation * np.clip(rest[:, :-1], -_CLIP, _CLIP)
    spread *= math.sqrt(max(tails, 0.5)) / 2
    return np.asarray((rest[:, 1:] + owed + level) * np.exp(spread))


def _variance(base: Expectation) -> float:
    """That of what is expected, in the middle of the period that it is used in."""
    usual = max(base.nodes, key=lambda name: base.nodes[name][1])
    return float(base.variance(np.array([base.day + RENEWED_DAYS / 2]), [usual])[0])


def common_limit(
    bases: Sequence[Expectation], usual: Values, alarms_a_night: float, seed: int
) -> float:
    """The limit of all series, at which they raise so many alarms a night without a change.

    The largest evidence in histories drawn from every series is pooled: that of one series is too
    little for so rare an event.
    """
    rng = np.random.default_rng(seed)
    each = max(10, _DRAWN // len(bases))
    rest = np.concatenate([drawn(base, _WATCHED, each, rng) for base in bases])
    memory = np.repeat([base.correlation for base in bases], each)
    found = largest(rest, memory, np.repeat([_variance(base) for base in bases], each), usual)
    chance = alarms_a_night * _WATCHED / len(bases)
    return max(LEAST_LIMIT, float(np.quantile(found, 1 - min(1.0, chance))))


def detectable_spreads(base: Expectation, usual: Values, limit: float, seed: int) -> float:
    """The shift that is found within `WITHIN_NIGHTS` with probability `POWER`, in spreads."""
    memory, variance = base.correlation, _variance(base)
    rest = drawn(base, WITHIN_NIGHTS, _SHIFTED, np.random.default_rng(seed))
    left = np.full(WITHIN_NIGHTS, 1 - memory) / math.sqrt(1 - memory**2)
    left[0] = 1 / math.sqrt(1 - memory**2)
    for shift in _SHIFTS:
        found = largest(rest + shift * left, memory, variance, usual) >= limit
        if found.mean() >= POWER:
            return float(shift)
    return _SURELY


def new_nights(scores: Values) -> int:
    """How many of the last nights are at a new level, of scores that are known to have changed.

    The maximum likelihood estimate for normal nights with a known level before (Hinkley 1970,
    Biometrika 57, 1-17).
    """
    sums = np.cumsum(np.clip(scores, -EXTREME, EXTREME)[::-1])
    return 1 + int(np.argmax(sums / np.sqrt(np.arange(1, len(sums) + 1))))


#: Nights of a baseline: fewest, and most, so that it has each season and follows slow drift.
FEWEST_NIGHTS = 30
MOST_NIGHTS = 400
#: Most nights that are left out of one since they may be changed.
_LEFT_OUT = 30
#: Baselines and limit are renewed every second Monday.
RENEWED_DAYS = 14
#: A change is dated within so many last nights.
_DATED_NIGHTS = 60
#: False alarms in a year over all series of a machine.
FALSE_ALARMS_A_YEAR = 0.55


@dataclass(frozen=True)
class Baseline:
    """What nights are compared with. `first` and `end` are the range of its nights in a series."""

    expected: Expectation
    #: The `density` of its machine's nights, and the limit.
    usual: Values
    limit: float
    first: int
    end: int

    def expected_of(self, series: Series, part: slice) -> Values:
        """The expected logarithms of nights of a series."""
        return self.expected.value(days_of(series, part), node_sets(series, part))

    def scores(self, series: Series, part: slice) -> Values:
        """Distance of nights from what is expected of them, in spreads; above 0 is worse."""
        return (series.worse[part] - self.expected_of(series, part)) / self.expected.spread

    def compared(
        self, series: Series, part: slice, before: list[float]
    ) -> Iterator[tuple[float, Values, Values, float]]:
        """Of each night its score, and for a change for the worse and the better:

        its distance in standard errors, its evidence, and by how much n nights are less.
        `before` is the score of the night before the first; empty if it was not compared.
        """
        scores, expected = self.scores(series, part), self.expected
        days = days_of(series, slice(part.start - len(before), part.stop))
        memory = np.zeros(len(scores))
        memory[1 - len(before) :] = expected.correlation ** np.diff(days)
        owed = memory * np.clip([*(before or [0.0]), *scores[:-1]], -_CLIP, _CLIP)
        rest = (scores - owed) / np.sqrt(1 - memory**2)
        variance = expected.variance(days[len(before) :], node_sets(series, part))
        both = np.array([1.0, -1.0])
        return zip(
            scores.tolist(),
            (scores / np.sqrt(1 + variance))[:, None] * both,
            evidence(rest[:, None], _left(memory)[:, None] * both, self.usual),
            (variance * (1 - memory) / (1 + memory)).tolist(),
            strict=True,
        )


def days_of(series: Series, part: slice) -> Values:
    """The days of nights, as ordinals."""
    return np.array([night.toordinal() for night in series.nights[part]], float)


def node_sets(series: Series, part: slice) -> list[str]:
    """The names of the sets of nodes that nights ran on."""
    return [",".join(nodes) for nodes in series.nodes[part]]


@dataclass(frozen=True)
class Found:
    """A change of level. `noticed` and `since` are nights of the series, by index."""

    noticed: int
    since: int
    worse: bool
    baseline: Baseline

    @property
    def sides(self) -> tuple[slice, slice]:
        """The nights before and since, as far as they were compared."""
        first = min(self.baseline.first, self.since - 1)
        return slice(first, self.since), slice(self.since, self.noticed + 1)


@dataclass
class Followed:
    """A series, followed up to some night."""

    series: Series
    found: list[Found] = field(default_factory=list)
    baseline: Baseline | None = None
    #: The first baseline of all.
    first: Baseline | None = None
    #: Of the last baseline (`Expectation.likelihood`).
    likelihood: Values | None = None
    #: For the worse and for the better (`added`), and the evidence for both.
    state: State = field(default_factory=partial(nothing, 2))
    evidence: Values = field(default_factory=lambda: np.zeros(2))
    #: Score of each night that was compared, since the last change.
    scores: list[float] = field(default_factory=list)
    #: First night of the next baselines, and the next night to look at.
    start: int = 0
    next: int = 0

    def renewed(self, day: int, likely: Values) -> Expectation | None:
        """What the last nights at the present level let one expect; None if there are too few.

        The last ones that are evidence of a change are left out.
        """
        nights = self.window()
        if nights.stop - nights.start < FEWEST_NIGHTS:
            return None
        days, nodes = days_of(self.series, nights), node_sets(self.series, nights)
        return expectation(self.series.worse[nights], days, nodes, day, likely)

    def window(self) -> slice:
        """The nights of a new baseline."""
        end = self.next - min(int(self.state[1].max()), _LEFT_OUT)
        return slice(max(self.start, end - MOST_NIGHTS), max(self.start, end))

    def renew(self, expected: Expectation, usual: Values, limit: float) -> None:
        """Take a new baseline."""
        nights = self.window()
        self.baseline = Baseline(expected, usual, limit, nights.start, nights.stop)
        self.first = self.first or self.baseline
        self.likelihood = expected.likelihood

    def look(self, until: int) -> None:
        """Look at the nights before the day `until`."""
        part = slice(self.next, bisect_left(self.series.nights, date.fromordinal(until)))
        self.next = part.stop
        if self.baseline is None or part.start >= part.stop:
            return
        compared = self.baseline.compared(self.series, part, self.scores[-1:])
        for at, (score, of_worse, found, less) in enumerate(compared, part.start):
            self.scores.append(score)
            self.state = added(self.state, of_worse, found)
            self.evidence = self.state[0] / (1 + self.state[1] * less)
            changed = (self.evidence >= self.baseline.limit) | (self.state[2] >= IN_A_ROW)
            if changed.any():
                self._restart(at, worse=bool(changed[0]), base=self.baseline)
                return

    def _restart(self, at: int, *, worse: bool, base: Baseline) -> None:
        """Start over after this night.

        The nights since the change were selected by being bad or good, so they would bias a new
        baseline: after an improvement that is none, usual nights would look worse.
        """
        scores = np.array(self.scores[-_DATED_NIGHTS:]) * (1 if worse else -1)
        self.found.append(Found(at, at + 1 - new_nights(scores), worse, base))
        self.baseline, self.start, self.scores = None, at + 1, []
        self.state, self.evidence = nothing(2), np.zeros(2)


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
    period = first - (first - 1) % RENEWED_DAYS  # ordinal 1 is a Monday
    for begin in range(period, last + 1, RENEWED_DAYS):
        if begin >= first:
            _renew(followed, begin)
        for each in followed:
            each.look(min(begin + RENEWED_DAYS, last + 1))


def _renew(followed: Sequence[Followed], day: int) -> None:
    known = [each.likelihood for each in followed if each.likelihood is not None]
    if not known:
        first = [each.renewed(day, UNKNOWN) for each in followed]
        known = [found.likelihood for found in first if found]
    likely = common(known) if known else UNKNOWN
    renewed = [(each, found) for each in followed if (found := each.renewed(day, likely))]
    if not renewed:
        return
    a_year = nights_a_year([each.series for each in followed], date.fromordinal(day))
    bases = [base for _, base in renewed]
    usual = density(np.concatenate([base.rest for base in bases]))
    limit = common_limit(bases, usual, FALSE_ALARMS_A_YEAR / a_year, seed=day)
    for each, base in renewed:
        each.renew(base, usual, limit)


def detectable(base: Baseline) -> float:
    """The loss that is found soon with a baseline, as a share (`SeriesWatch`)."""
    spreads = detectable_spreads(base.expected, base.usual, base.limit, seed=base.end)
    return float(np.expm1(spreads * base.expected.spread))
