"""What became worse on a machine, and since when (docs/nights.md#alarms).

    surveyed = survey(nights_of(results), results)     # of `analysis.history.nights`
    surveyed.alarms, surveyed.watched

The last `RECENT` nights of a series are compared with the nights before them. Everything on a night
follows from the nights up to it, so that a later look finds the same alarms on the same nights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from analysis.history.facts import ChangedFact, changed_facts, facts_of
from analysis.history.nights import KEY, night_of
from records.notes import Note, remedy_of
from records.units import change

Values = NDArray[np.float64]

#: Nights whose mean is compared, most and fewest nights before them that are the reference, and
#: nights from which is known how far such means usually lie from it.
RECENT, MOST, FEWEST, USUAL = 6, 30, 20, 200
#: A mean so many times as far as usual on the worse side is an alarm: about one false alarm a
#: machine and year (`python -m tests.studies.alarms`).
LIMIT = 3.7
#: A night counts as at most so many spreads, so that one odd night is no alarm.
_CLIP = 3.0
#: Chance of a weekly pattern that is taken for one where there is none, and fewest nights of a
#: weekday.
_WEEKLY, _FEWEST_WEEKS = 0.001, 4
#: Least spread of what all series have in common, in theirs: it never is exactly the same.
_LEAST_SPREAD = 0.1
#: Fewest series from which is known what a machine's series have in common.
_FEWEST_SERIES = 6
#: From so few means that they overlap, what is usual is known poorly: it is taken to be larger.
_DOUBT = 5 * RECENT
#: Robust spread: 1.4826 median absolute deviations.
_MAD = 1.4826
#: Case of an alarm of what all series of a machine have in common.
MACHINE = "(machine)"


@dataclass(frozen=True)
class Change:
    """A change that was noticed; nights are rows of the watched table."""

    #: Column of the series; None for what all series have in common.
    series: int | None
    since: int
    noticed: int
    worse: bool


class Watch:
    """The watch over a campaign: `values` are logarithms (night, series), larger is worse.

    NaN where a series was not measured. The last column of the tables made here is what all series
    have in common. `days`: number of the day of each night; without them none is left out.
    """

    def __init__(self, values: Values, days: Sequence[int] | None = None) -> None:
        nights, series = values.shape
        self._values = values
        self._weekdays = np.asarray(range(nights) if days is None else days) % 7
        #: What all series have in common, in their spreads; and that of the same weekdays.
        self._common = np.full(nights, np.nan)
        self._of_weekday = np.full(nights, np.nan)
        #: Distances of nights from the median of those before, and the same in spreads without what
        #: the series share.
        self._distance = np.full((nights, series), np.nan)
        self._shared = np.full((nights, series), np.nan)
        self._apart = np.full((nights, series + 1), np.nan)
        #: Mean of `_apart` over the last nights, and how far one usually lies on the worse side.
        self._mean = np.full((nights, series + 1), np.nan)
        self.usual = np.full(series + 1, np.nan)
        self.spread = np.full(series, np.nan)
        #: First night of the present level.
        self.start = np.zeros(series, int)
        self.changes: list[Change] = []

    def all(self) -> list[Change]:
        """Look at all nights."""
        with np.errstate(invalid="ignore"):
            for night in range(FEWEST, len(self._values)):
                self._look(night)
        return self.changes

    def reference(self, series: int, night: int) -> Values:
        """The nights that a night is compared with."""
        first = max(int(self.start[series]), night - MOST)
        values = self._values[first:night, series]
        return np.asarray(values[np.isfinite(values)])

    def _look(self, night: int) -> None:
        past = slice(max(0, night - USUAL), night)
        first = max(0, night - MOST)
        at_level = np.arange(first, night)[:, None] >= self.start
        before = np.where(at_level, self._values[first:night], np.nan)
        enough = np.isfinite(before).sum(0) >= FEWEST
        self._distance[night] = self._values[night] - np.where(enough, _median(before, 0), np.nan)
        self.spread = _MAD * _median(np.abs(self._distance[past]), 0)
        inside = self._distance[night] / self.spread
        self._shared[night], self._common[night] = _in_common(inside)
        self._apart[night, :-1] = inside - self._share(past) * self._shared[night]
        self._of_weekday[night] = self._weekly(night)
        self._apart[night, -1] = self._own_spreads(night)
        np.clip(self._apart[night], -_CLIP, _CLIP, out=self._apart[night])
        recent = self._recent(night)
        self._mean[night] = recent.mean(0)
        self.usual = self._usual(night)
        away = self._mean[night] / self.usual
        for sign in (1, -1):
            one_side = (sign * recent > 0).all(0)
            changed = np.flatnonzero((sign * away > LIMIT) & one_side)
            # What all series share is last: a new level of the machine is one of each series.
            for series in changed[-1:] if self._apart.shape[1] - 1 in changed else changed:
                self._changed(int(series), night, worse=sign > 0)

    def _own_spreads(self, night: int) -> float:
        """What all series have in common beyond that of such weekdays, in spreads of its own."""
        past = slice(max(0, night - USUAL), night)
        beyond = self._common - self._of_weekday
        spread = _MAD * float(_median(np.abs(beyond[past]), 0))
        return float(beyond[night]) / max(spread, _LEAST_SPREAD)

    def _weekly(self, night: int) -> float:
        """What they have in common on such weekdays; 0 unless weekdays are shown to differ.

        By the ranks of past nights (Kruskal and Wallis 1952).
        """
        past = slice(max(0, night - USUAL), night)
        known = np.isfinite(self._common[past])
        common, weekdays = self._common[past][known], self._weekdays[past][known]
        same = common[weekdays == self._weekdays[night]]
        if len(same) < _FEWEST_WEEKS:
            return 0.0
        ranks = common.argsort().argsort() - (len(common) - 1) / 2
        counts = np.bincount(weekdays, minlength=7)
        sums = np.bincount(weekdays, weights=ranks, minlength=7)
        apart = 12 * (sums**2 / np.maximum(counts, 1)).sum() / (len(common) * (len(common) + 1))
        differ = special.chdtrc(np.count_nonzero(counts) - 1, apart) <= _WEEKLY
        return float(np.median(same)) if differ else 0.0

    def _recent(self, night: int) -> Values:
        """The last measured nights of each series; NaN unless this one was, and enough before."""
        recent = np.full((RECENT, self._apart.shape[1]), np.nan)
        part = self._apart[max(0, night + 1 - 2 * RECENT) : night + 1]
        for series in np.flatnonzero(np.isfinite(part[-1])):
            measured = part[np.isfinite(part[:, series]), series]
            if len(measured) >= RECENT:
                recent[:, series] = measured[-RECENT:]
        return recent

    def _share(self, past: slice) -> Values:
        """How much of what the others have in common each series shows, by least squares."""
        others = np.nan_to_num(self._shared[past])
        inside = np.nan_to_num(self._distance[past] / self.spread)
        both = (inside * others).sum(0)
        squares = (np.isfinite(self._distance[past]) * others**2).sum(0)
        share = np.divide(both, squares, out=np.zeros_like(both), where=squares > 0)
        return np.asarray(np.clip(share, 0, 2))

    def _usual(self, night: int) -> Values:
        """Root of the mean square of earlier means, or of those on the worse side if larger.

        At least that of independent nights, and more if it is known from few.
        """
        means = self._mean[max(0, night - USUAL) : max(0, night - RECENT + 1)]
        finite, worse = np.isfinite(means), means > 0
        squares = np.nan_to_num(means) ** 2
        all_of_them, on_worse_side = (
            (squares * which).sum(0) / np.maximum(which.sum(0), 1) for which in (finite, worse)
        )
        usual = np.maximum(np.maximum(all_of_them, on_worse_side), 1 / RECENT)
        return np.asarray(np.sqrt(usual * (1 + _DOUBT / np.maximum(finite.sum(0), 1))))

    def _changed(self, column: int, night: int, *, worse: bool) -> None:
        """Record a change, and begin a new level; nights of the change are not usual ones."""
        is_machine = column == self._apart.shape[1] - 1
        self.changes.append(
            Change(None if is_machine else column, night - RECENT + 1, night, worse)
        )
        columns = slice(None) if is_machine else slice(column, column + 1)
        changed = slice(night - RECENT + 1, night + 1)
        self.start[columns] = night + 1
        for table in (self._apart, self._mean, self._distance):
            table[changed, columns] = np.nan
        if is_machine:
            self._common[changed] = np.nan


def _median(values: Values, axis: int) -> Values:
    """Of what is known; NaN if nothing is. As `numpy.nanmedian`, in a tenth of its time."""
    ordered = np.sort(values, axis)  # NaN last
    count = np.isfinite(values).sum(axis, keepdims=True)
    low, high = (
        np.take_along_axis(ordered, np.clip(place, 0, ordered.shape[axis] - 1), axis)
        for place in ((count - 1) // 2, count // 2)
    )
    return np.asarray(np.where(count > 0, (low + high) / 2, np.nan).squeeze(axis))


def _in_common(inside: Values) -> tuple[Values, float]:
    """Of a night, the median of the other series for each series, and the median of all."""
    if np.isfinite(inside).sum() < _FEWEST_SERIES:
        return np.zeros_like(inside), math.nan
    others = np.tile(inside, (len(inside), 1))
    np.fill_diagonal(others, np.nan)
    return _median(others, 1), float(_median(inside, 0))


# Alarms and watched series with their names and units.


@dataclass(frozen=True)
class Series:
    """Names of a series."""

    machine: str
    campaign: str
    #: `MACHINE`, with empty `arm` and `quantity`, for what all series have in common.
    case: str
    arm: str
    quantity: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Its names on the machine."""
        return self.campaign, self.case, self.arm, self.quantity


@dataclass(frozen=True)
class Alarm(Series):
    """A series became worse. Ratios are of times or slowdowns: above 1 is worse."""

    #: First night of the change, and the night that raised the alarm (ISO dates), with its run.
    since: str
    night: str
    run: str
    #: The changed nights against those before, and the same of the last nights.
    ratio: float
    ratio_now: float
    #: Whether the last nights are nearer to the loss than to the level before, which is taken for
    #: the usual one `MOST` nights later.
    open: bool
    #: What changed at the same time.
    changed: list[ChangedFact]

    @property
    def text(self) -> str:
        """The alarm in one line."""
        what = "all that is watched" if self.case == MACHINE else " ".join(self.key[1:])
        now = "" if self.open else ", not any more"
        worse = change(self.ratio).removeprefix("+")
        return f"{what}: {worse} worse since {self.since}{now}"


@dataclass(frozen=True)
class WatchedSeries(Series):
    """A series as it is after its last night."""

    unit: str
    #: Last night (ISO date), and number of nights.
    last: str
    nights: int
    #: Median of the reference nights, in `unit`, and the relative night-to-night spread (0.01 is
    #: 1 %); None while there are too few nights.
    level: float | None = None
    spread: float | None = None
    #: The loss that `RECENT` nights show in half of all cases, as a share.
    detectable: float | None = None


@dataclass(frozen=True)
class BelowReference:
    """A baseline that falls short of the site's reference."""

    machine: str
    campaign: str
    case: str
    #: Night (ISO date) and name of the run.
    night: str
    run: str
    #: What was measured, and what was expected.
    text: str


@dataclass(frozen=True)
class Survey:
    """What is known of all watched series."""

    alarms: list[Alarm]
    watched: list[WatchedSeries]
    below_reference: list[BelowReference]

    @property
    def is_open(self) -> bool:
        """Whether anything is worse now."""
        return bool(self.below_reference) or any(alarm.open for alarm in self.alarms)


def survey(nights: pl.DataFrame, results: pl.DataFrame) -> Survey:
    """Alarms and watched series of all machines; facts of runs are those in `results`."""
    of_runs = facts_of(results)
    parts = nights.partition_by("machine", "campaign", maintain_order=True)
    campaigns = [_Campaign(rows, of_runs) for rows in parts]
    alarms = [of.alarm(change) for of in campaigns for change in of.watch.changes if change.worse]
    watched = [of.watched(*series) for of in campaigns for series in enumerate(of.keys)]
    alarms.sort(key=lambda alarm: alarm.night)
    return Survey(alarms, watched, below_reference(results))


def below_reference(results: pl.DataFrame) -> list[BelowReference]:
    """Each case whose baseline fell short of its reference when it was measured last."""
    key = ["machine", "campaign", "case"]
    columns = [*key, "started_s", "run", "notes"]
    last = pl.col("started_s") == pl.col("started_s").max().over(key)
    short = results.filter(last & pl.col("slower_than_reference"))
    rows = short.unique(key, keep="first", maintain_order=True).select(columns)
    return [
        BelowReference(machine, campaign, case, night_of(started_s).isoformat(), run, text)
        for machine, campaign, case, started_s, run, notes in rows.iter_rows()
        for text in notes
        if remedy_of(text) == Note.REFERENCE.remedy
    ]


class _Campaign:
    """One campaign on a machine: its nights as a table, the watch over it, and names of both."""

    def __init__(self, rows: pl.DataFrame, facts: Mapping[str, Mapping[str, str]]) -> None:
        sign = pl.when(pl.col("better") == "higher").then(-1.0).otherwise(1.0)
        kind = pl.col("unit", "better").last().over(KEY).name.prefix("last_")
        same = (pl.col("unit") == pl.col("last_unit")) & (pl.col("better") == pl.col("last_better"))
        self.rows = rows.with_columns(kind, worse=pl.col("value").log() * sign).filter(same)
        self.facts = facts
        self.machine, self.campaign = rows.select("machine", "campaign").row(0)
        self.keys = self.rows.select(KEY).unique(maintain_order=True).rows()
        self.days: list[date] = self.rows["night"].unique().sort().to_list()
        column = {key: at for at, key in enumerate(self.keys)}
        place = {day: at for at, day in enumerate(self.days)}
        self.values = np.full((len(self.days), len(self.keys)), np.nan)
        for *key, night, worse in self.rows.select(*KEY, "night", "worse").iter_rows():
            self.values[place[night], column[tuple(key)]] = worse
        #: The run of each night.
        self.runs: list[str] = (
            self.rows.unique("night", keep="first").sort("night")["run"].to_list()
        )
        self.watch = Watch(self.values, [day.toordinal() for day in self.days])
        self.watch.all()

    def alarm(self, change: Change) -> Alarm:
        columns = list(range(len(self.keys))) if change.series is None else [change.series]
        values = self.values[:, columns]
        before = _median(values[max(0, change.since - MOST) : change.since], 0)

        def against(part: slice) -> float:
            """Nights against those before, the median over all series."""
            return math.exp(_median(_median(values[part], 0) - before, 0))

        ratio = against(slice(change.since, change.noticed + 1))
        now = against(slice(-RECENT, None))
        later = len(self.days) - 1 - change.noticed
        _, case, arm, quantity = self.keys[columns[0]]
        if change.series is None:
            case, arm, quantity = MACHINE, "", ""
        since = self.runs[change.since]
        return Alarm(
            self.machine,
            self.campaign,
            case,
            arm,
            quantity,
            since=self.days[change.since].isoformat(),
            night=self.days[change.noticed].isoformat(),
            run=self.runs[change.noticed],
            ratio=ratio,
            ratio_now=now,
            open=later < MOST and now > math.sqrt(ratio),
            changed=changed_facts(self.facts, self.runs, since),
        )

    def watched(self, column: int, key: tuple[str, ...]) -> WatchedSeries:
        same = (pl.col(name) == value for name, value in zip(KEY, key, strict=True))
        unit, better, night = self.rows.filter(*same)[-1].select("unit", "better", "night").row(0)
        nights = int(np.isfinite(self.values[:, column]).sum())
        campaign, case, arm, quantity = key
        series = WatchedSeries(
            self.machine, campaign, case, arm, quantity, unit, night.isoformat(), nights
        )
        reference = self.watch.reference(column, len(self.days))
        spread = float(self.watch.spread[column])
        if len(reference) < FEWEST or not math.isfinite(spread):
            return series
        return replace(
            series,
            level=math.exp(float(np.median(reference)) * (-1 if better == "higher" else 1)),
            spread=spread,
            detectable=math.expm1(LIMIT * float(self.watch.usual[column]) * spread),
        )
