"""The watch over one machine: each series with its baseline, sum and changes, night by night.

Everything on a night follows from the nights before it, so that a later look at the same table
finds the same changes on the same nights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from analysis.history import cusum
from analysis.history.cusum import Values
from analysis.history.divisive import latest_change
from analysis.history.series import Series, nights_a_year

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
        level, spread = cusum.baseline(window)
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
        self.state = cusum.added(self.state, np.array([worse, -worse]))
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
    limit = cusum.common_limit(list(windows.values()), a_night, seed=day)
    for at, window in windows.items():
        followed[at].renew(window, limit)


def detectable(series: Series, base: Baseline) -> float | None:
    """The loss of a series that is found soon with a baseline, as a share (`SeriesWatch`)."""
    values = series.worse[base.first : base.end]
    spreads = cusum.detectable_spreads(values, base.limit, seed=base.end)
    return None if spreads is None else float(np.expm1(spreads * base.spread))
