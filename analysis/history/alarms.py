"""Alarms: what became worse on a machine, and since when (docs/nights.md#alarms).

    surveyed = survey(nights_of(results), results)  # nights_of is in `analysis.history.nights`
    surveyed.alarms, surveyed.watched

A night is a run of a repeated campaign. A series is one quantity of a case over the nights. Each
night of a series is compared with its reference, which is the nights before it. The mean over the
last `RECENT_NIGHTS` decides whether an alarm is raised. The alarms of a night depend only on the
nights up to it, so a later run finds the same alarms on the same nights.
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

from analysis.display.figures import relative_change_text
from analysis.history.changed_facts import ChangedFact, RunKey, changed_facts, facts_by_run
from analysis.history.nights import SERIES_KEY, night_of
from records.notes import Note, remedy_of

Values = NDArray[np.float64]

#: Number of last nights of a series whose mean distance from their references decides.
RECENT_NIGHTS = 6
#: Largest and smallest number of nights before a night that are its reference.
MAX_NIGHTS_BEFORE = 30
MIN_NIGHTS_BEFORE = 20
#: Number of earlier nights from which the usual distance is computed: how far the mean of
#: `RECENT_NIGHTS` usually lies from its reference.
EARLIER_NIGHTS = 200
#: An alarm is raised if a mean is worse than its reference by more than this many usual distances.
#: A machine then has about one false alarm a year (`python -m tests.studies.alarms`).
ALARM_LIMIT = 3.7
#: Distances of nights are clipped to this many spreads, so that one odd night raises no alarm.
_MAX_DISTANCE = 3.0
#: Chance that weekdays are taken to differ although they do not.
_WEEKDAY_ERROR_LEVEL = 0.001
#: Smallest number of nights of a weekday from which the usual level of this weekday is computed.
_MIN_NIGHTS_OF_WEEKDAY = 4
#: Least spread of the common part (the distance that all series of a machine have in common), in
#: spreads of the series. The common part is never exactly the same on all nights.
_MIN_COMMON_SPREAD = 0.1
#: Smallest number of series of a machine from which their common part is computed.
_MIN_SERIES = 6
#: Largest share of the common part that a series may have.
_MAX_SHARE_OF_COMMON_PART = 2.0
#: The means of successive nights overlap, so a usual distance that is computed from few means is
#: uncertain. The square of this distance is multiplied by 1 + this constant / number of means.
_UNCERTAINTY_MEANS = 5 * RECENT_NIGHTS
#: Robust spread (standard deviation) of a normal distribution / its median absolute deviation.
_SPREAD_PER_MAD = 1.4826
#: Spread of a series of which most nights have the same value, such as whole seconds. It is smaller
#: than the step between two values, so each other value counts as a large distance.
_STEP_SPREAD = 0.001
#: Case of an alarm on the part that all series of a machine have in common.
COMMON_PART_CASE = "(machine)"


@dataclass(frozen=True)
class NoticedChange:
    """A change that was noticed. Nights are row numbers of the watched table."""

    #: Column of the series in the watched table; None for the common part of all series.
    column: int | None
    #: First night of the change, and the night on which the change was noticed.
    first_night: int
    noticed_night: int
    worse: bool


class _Watched:
    """The distances of nights from the usual level, in spreads. They are judged night by night."""

    def __init__(self, n_nights: int) -> None:
        self.judged_distances = np.full(n_nights, np.nan)
        #: For each night, the mean of `judged_distances` over the last measured nights.
        self.means = np.full(n_nights, np.nan)
        #: Usual distance of such a mean from 0 (`_usual_distance`).
        self.usual_distance = math.nan

    def judge(self, night: int, distance: float) -> int:
        """Add a night; return 1 if the last nights are worse than usual, -1 if better, else 0."""
        if math.isnan(distance):
            self.judged_distances[night] = math.nan
        else:
            self.judged_distances[night] = min(max(distance, -_MAX_DISTANCE), _MAX_DISTANCE)
        recent = self._recent(night)
        self.means[night] = recent.sum() / RECENT_NIGHTS
        self.usual_distance = self._usual_distance(night)
        limit = ALARM_LIMIT * self.usual_distance
        for sign in (1, -1):
            if sign * self.means[night] > limit and (sign * recent > 0).all():
                return sign
        return 0

    def restart(self, changed_nights: slice) -> None:
        """Forget the nights of a change, since they are not usual nights."""
        self.judged_distances[changed_nights] = np.nan
        self.means[changed_nights] = np.nan

    def first_recent_night(self, night: int) -> int:
        """Return the first of the last `RECENT_NIGHTS` measured nights up to a night."""
        measured_nights = np.flatnonzero(np.isfinite(self.judged_distances[: night + 1]))
        return int(measured_nights[-RECENT_NIGHTS])

    def _recent(self, night: int) -> Values:
        """Return the distances of the last `RECENT_NIGHTS` measured nights, up to this night.

        All are NaN if this night was not measured, or if fewer than `RECENT_NIGHTS` of the last
        2 x `RECENT_NIGHTS` nights were measured.
        """
        distances = self.judged_distances[max(0, night + 1 - 2 * RECENT_NIGHTS) : night + 1]
        known_distances = distances[np.isfinite(distances)]
        if not np.isfinite(distances[-1]) or len(known_distances) < RECENT_NIGHTS:
            return np.full(RECENT_NIGHTS, np.nan)
        return np.asarray(known_distances[-RECENT_NIGHTS:])

    def _usual_distance(self, night: int) -> float:
        """Return the root mean square of earlier means, or of earlier means on the worse side.

        The larger one is returned. It is at least the value for independent nights. It is
        increased if there are few means.
        """
        means = self.means[max(0, night - EARLIER_NIGHTS) : max(0, night - RECENT_NIGHTS + 1)]
        known_means = means[np.isfinite(means)]
        worse_means = known_means[known_means > 0]
        mean_square = max(
            (known_means**2).sum() / max(len(known_means), 1),
            (worse_means**2).sum() / max(len(worse_means), 1),
            1 / RECENT_NIGHTS,
        )
        return math.sqrt(mean_square * (1 + _UNCERTAINTY_MEANS / max(len(known_means), 1)))


class _Series(_Watched):
    """One series: its nights, its level and spread, and its share of the common part."""

    def __init__(self, log_values: Values) -> None:
        super().__init__(len(log_values))
        self.log_values = log_values
        #: Distances of nights from the median of the nights before, both in logarithms.
        self.distances = np.full(len(log_values), np.nan)
        #: For each night, the distance that the other series have in common, in their spreads.
        self.common_parts = np.full(len(log_values), np.nan)
        self.spread = math.nan
        self.first_night_of_level = 0

    def reference(self, night: int) -> Values:
        """Return the logarithms of the nights with which a night is compared."""
        first_night = max(self.first_night_of_level, night - MAX_NIGHTS_BEFORE)
        before = self.log_values[first_night:night]
        return np.asarray(before[np.isfinite(before)])

    def measure(self, night: int) -> float:
        """Return a night's distance from its reference, in spreads; NaN without a reference."""
        before = self.reference(night)
        if len(before) >= MIN_NIGHTS_BEFORE:
            self.distances[night] = self.log_values[night] - _median_of_known(before)
        past_distances = self.distances[max(0, night - EARLIER_NIGHTS) : night]
        self.spread = _SPREAD_PER_MAD * _median_of_known(np.abs(past_distances)) or _STEP_SPREAD
        return float(self.distances[night] / np.float64(self.spread))

    def own_distance(self, night: int, distance: float, common_part: float) -> float:
        """Return the distance of a night, minus this series' share of the common part."""
        self.common_parts[night] = common_part
        past = slice(max(0, night - EARLIER_NIGHTS), night)
        return distance - self._share_of_common_part(past) * common_part

    def _share_of_common_part(self, past: slice) -> float:
        """Return how strongly this series follows the common part of the other series.

        It is distance / common part, by least squares, from 0 to `_MAX_SHARE_OF_COMMON_PART`.
        """
        known = np.isfinite(self.distances[past]) & np.isfinite(self.common_parts[past])
        common_parts = self.common_parts[past][known]
        distances = np.nan_to_num(self.distances[past][known] / np.float64(self.spread))
        squares = float((common_parts**2).sum())
        if squares <= 0:
            return 0.0
        share = float((distances * common_parts).sum()) / squares
        return min(max(share, 0.0), _MAX_SHARE_OF_COMMON_PART)

    def restart(self, changed_nights: slice) -> None:
        """Begin a new level after the nights of a change, and forget these nights."""
        super().restart(changed_nights)
        self.distances[changed_nights] = np.nan
        self.first_night_of_level = changed_nights.stop


class _CommonPart(_Watched):
    """The part that all series have in common.

    `weekdays` has a number from 0 to 6 for the weekday of each night.
    """

    def __init__(self, weekdays: NDArray[np.int64]) -> None:
        super().__init__(len(weekdays))
        self._weekdays = weekdays
        #: The common part of each night, in spreads of the series.
        self._parts = np.full(len(weekdays), np.nan)
        #: For each night, the usual common part on its weekday.
        self._weekday_levels = np.full(len(weekdays), np.nan)

    def measure(self, night: int, common_part: float) -> float:
        """Return the distance of a night from the level of its weekday, in spreads of distances."""
        self._parts[night] = common_part
        self._weekday_levels[night] = self._weekday_level(night)
        distances = self._parts - self._weekday_levels
        spread = _SPREAD_PER_MAD * _median_of_known(
            np.abs(distances[max(0, night - EARLIER_NIGHTS) : night])
        )
        return float(distances[night]) / max(spread, _MIN_COMMON_SPREAD)

    def _weekday_level(self, night: int) -> float:
        """Return the usual common part on a night's weekday; 0 unless weekdays are shown to differ.

        The test uses the ranks of past nights (Kruskal and Wallis 1952).
        """
        past = slice(max(0, night - EARLIER_NIGHTS), night)
        known = np.isfinite(self._parts[past])
        parts, weekdays = self._parts[past][known], self._weekdays[past][known]
        on_same_weekday = parts[weekdays == self._weekdays[night]]
        if len(on_same_weekday) < _MIN_NIGHTS_OF_WEEKDAY:
            return 0.0
        ranks = parts.argsort().argsort() - (len(parts) - 1) / 2
        counts = np.bincount(weekdays, minlength=7)
        sums = np.bincount(weekdays, weights=ranks, minlength=7)
        statistic = 12 * (sums**2 / np.maximum(counts, 1)).sum() / (len(parts) * (len(parts) + 1))
        differ = special.chdtrc(np.count_nonzero(counts) - 1, statistic) <= _WEEKDAY_ERROR_LEVEL
        return float(np.median(on_same_weekday)) if differ else 0.0

    def restart(self, changed_nights: slice) -> None:
        """Forget the nights of a change, since they are not usual nights."""
        super().restart(changed_nights)
        self._parts[changed_nights] = np.nan


class AlarmWatch:
    """Watches all series of a campaign.

    `log_values` has logarithms of values, with a row for each night and a column for each series. A
    larger value is worse, and NaN means that the value was not measured. `days` has the day of each
    night, as a number of `date.toordinal`. By default, nights are successive days.
    """

    def __init__(self, log_values: Values, days: Sequence[int] | None = None) -> None:
        self._n_nights = len(log_values)
        self.series = [_Series(column) for column in log_values.T]
        weekdays = np.asarray(range(self._n_nights) if days is None else days, np.int64) % 7
        self._common_part = _CommonPart(weekdays)
        self.changes: list[NoticedChange] = []

    def judge_all(self) -> list[NoticedChange]:
        """Judge all nights, one after the other."""
        for night in range(MIN_NIGHTS_BEFORE, self._n_nights):
            self.judge(night)
        return self.changes

    def judge(self, night: int) -> None:
        """Judge the night with a number from `MIN_NIGHTS_BEFORE`, after all nights before it."""
        distances = np.asarray([series.measure(night) for series in self.series])
        parts_of_others, common_part = _common_parts(distances)
        signs: list[int] = []
        for series, distance, part_of_others in zip(
            self.series, distances, parts_of_others, strict=True
        ):
            own_distance = series.own_distance(night, float(distance), float(part_of_others))
            signs.append(series.judge(night, own_distance))
        common_distance = self._common_part.measure(night, common_part)
        common_sign = self._common_part.judge(night, common_distance)
        for sign in (1, -1):
            # A new level of the machine is a new level of each series.
            if common_sign == sign:
                self._record_change(None, night, worse=sign > 0)
                continue
            for column, series_sign in enumerate(signs):
                if series_sign == sign:
                    self._record_change(column, night, worse=sign > 0)

    def _record_change(self, column: int | None, night: int, *, worse: bool) -> None:
        """Record a change, and begin a new level."""
        watched = self._common_part if column is None else self.series[column]
        first_night = watched.first_recent_night(night)
        self.changes.append(NoticedChange(column, first_night, night, worse))
        changed_series = self.series if column is None else [self.series[column]]
        changed_nights = slice(first_night, night + 1)
        for series in changed_series:
            series.restart(changed_nights)
        if column is None:
            self._common_part.restart(changed_nights)


def _median_of_known(values: Values) -> float:
    """Return the median of the known values; NaN if no value is known."""
    known = np.sort(values[np.isfinite(values)])
    count = len(known)
    return float(known[(count - 1) // 2] + known[count // 2]) / 2 if count else math.nan


def _median_along(values: Values, axis: int) -> Values:
    """Return what `numpy.nanmedian` returns, in a tenth of the time."""
    ordered = np.sort(values, axis)  # NaN comes last
    count = np.isfinite(values).sum(axis, keepdims=True)
    low, high = (
        np.take_along_axis(ordered, np.clip(index, 0, ordered.shape[axis] - 1), axis)
        for index in ((count - 1) // 2, count // 2)
    )
    return np.asarray(np.where(count > 0, (low + high) / 2, np.nan).squeeze(axis))


def _common_parts(distances: Values) -> tuple[Values, float]:
    """Return, for each series, the median distance of all others in a night; and that of all.

    If too few series were measured, these medians are 0, and the median of all is NaN.
    """
    if np.isfinite(distances).sum() < _MIN_SERIES:
        return np.zeros_like(distances), math.nan
    others = np.tile(distances, (len(distances), 1))
    np.fill_diagonal(others, np.nan)
    return _median_along(others, 1), float(_median_along(distances, 0))


# Alarms and watched series with their names and units.


@dataclass(frozen=True)
class SeriesNames:
    """The names that identify a series: of its machine, campaign, case, arm and quantity."""

    machine: str
    campaign: str
    #: `COMMON_PART_CASE`, with empty `arm` and `quantity`, for the part that all series have in
    #: common.
    case: str
    arm: str
    quantity: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The names that identify the series on its machine."""
        return self.campaign, self.case, self.arm, self.quantity


@dataclass(frozen=True, kw_only=True)
class Alarm(SeriesNames):
    """An alarm: a series became worse. Ratios of rates are inverted, so that above 1 is worse."""

    #: First night of the change, and the night that raised the alarm (ISO dates), with its run.
    since: str
    night: str
    run: str
    #: Ratio of the changed nights to the nights before, and ratio of the last measured nights to
    #: the nights before.
    ratio: float
    ratio_now: float
    #: True if the last measured nights are nearer to the loss than to the level before. It is
    #: false from `MAX_NIGHTS_BEFORE` nights after `night` on, since the new level is then the usual
    #: level.
    open: bool
    #: Facts that changed at the same time.
    changed: list[ChangedFact]

    @property
    def text(self) -> str:
        """The alarm in one line."""
        series = f"{self.case} {self.arm} {self.quantity}"
        watched = "all that is watched" if self.case == COMMON_PART_CASE else series
        ending = "" if self.open else ", but no longer"
        loss = relative_change_text(self.ratio).removeprefix("+")
        return f"{watched}: {loss} worse since {self.since}{ending}"


@dataclass(frozen=True, kw_only=True)
class WatchedSeries(SeriesNames):
    """The state of a series after its last night."""

    unit: str
    #: Last night (ISO date), and number of nights.
    last: str
    nights: int
    #: Median of the reference nights, in `unit`, and the relative night-to-night spread (0.01 is
    #: 1 %); None while there are too few nights.
    level: float | None = None
    spread: float | None = None
    #: The loss that raises an alarm after `RECENT_NIGHTS` nights in half of all cases, as a share.
    #: None also if no loss does, since distances are clipped and means vary too widely.
    detectable: float | None = None


@dataclass(frozen=True, kw_only=True)
class BelowReference:
    """A baseline that falls short of the site's reference."""

    machine: str
    campaign: str
    case: str
    #: Night (ISO date) and name of the run.
    night: str
    run: str
    #: The measured value and the expected value, in words.
    text: str


@dataclass(frozen=True)
class Survey:
    """The state of all watched series."""

    alarms: list[Alarm]
    watched: list[WatchedSeries]
    below_reference: list[BelowReference]

    @property
    def is_open(self) -> bool:
        """Return whether anything is worse now."""
        return bool(self.below_reference) or any(alarm.open for alarm in self.alarms)


def survey(nights: pl.DataFrame, results: pl.DataFrame) -> Survey:
    """Return alarms, watched series, and baselines below their references, of all machines.

    `nights` is what `nights_of(results)` returns.
    """
    run_facts = facts_by_run(results)
    nights_of_campaigns = nights.partition_by("machine", "campaign", maintain_order=True)
    campaigns = [_Campaign(rows, run_facts) for rows in nights_of_campaigns]
    noticed_alarms = [
        campaign.alarm(change)
        for campaign in campaigns
        for change in campaign.watch.changes
        if change.worse
    ]
    # A series that gained less than all others lies on the worse side, but became no worse.
    alarms = [alarm for alarm in noticed_alarms if alarm.ratio > 1]
    watched = [
        campaign.watched(column, key)
        for campaign in campaigns
        for column, key in enumerate(campaign.keys)
    ]
    alarms.sort(key=lambda alarm: alarm.night)
    return Survey(alarms, watched, below_reference(results))


def below_reference(results: pl.DataFrame) -> list[BelowReference]:
    """Return each case whose baseline fell short of its reference in the case's last run.

    A case that none of the last `MAX_NIGHTS_BEFORE` runs of the campaign measured is left out, such
    as one that was removed from the campaign.
    """
    key = ["machine", "campaign", "case"]
    columns = [*key, "started_s", "run", "notes"]
    started_s = pl.col("started_s")
    is_latest = started_s == started_s.max().over(key)
    is_recent = started_s.rank("dense", descending=True).over(key[:2]) <= MAX_NIGHTS_BEFORE
    slower = results.filter(is_latest & is_recent & pl.col("slower_than_reference"))
    rows = slower.unique(key, keep="first", maintain_order=True).select(columns)
    return [
        BelowReference(
            machine=machine,
            campaign=campaign,
            case=case,
            night=night_of(started_s).isoformat(),
            run=run,
            text=note,
        )
        for machine, campaign, case, started_s, run, notes in rows.iter_rows()
        for note in notes
        if remedy_of(note) == Note.REFERENCE.remedy
    ]


class _Campaign:
    """One campaign on a machine: its nights as a table, and the watch over them."""

    def __init__(self, rows: pl.DataFrame, facts: Mapping[RunKey, Mapping[str, str]]) -> None:
        sign = pl.when(pl.col("better") == "higher").then(-1.0).otherwise(1.0)
        # Only nights that have the unit and the direction of the last night are compared.
        last_unit_and_better = pl.col("unit", "better").last().over(SERIES_KEY).name.prefix("last_")
        is_comparable = (pl.col("unit") == pl.col("last_unit")) & (
            pl.col("better") == pl.col("last_better")
        )
        self.rows = rows.with_columns(last_unit_and_better, log_value=pl.col("value").log() * sign)
        self.rows = self.rows.filter(is_comparable)
        self.machine, self.campaign = rows.select("machine", "campaign").row(0)
        self.keys = self.rows.select(SERIES_KEY).unique(maintain_order=True).rows()
        self.days: list[date] = self.rows["night"].unique().sort().to_list()
        column_of = {key: column for column, key in enumerate(self.keys)}
        row_of = {day: row for row, day in enumerate(self.days)}
        #: Logarithms of values, with a row for each night and a column for each series. Larger is
        #: worse.
        self.log_values = np.full((len(self.days), len(self.keys)), np.nan)
        for *key, day, log_value in self.rows.select(*SERIES_KEY, "night", "log_value").iter_rows():
            self.log_values[row_of[day], column_of[tuple(key)]] = log_value
        runs = self.rows.unique("night", keep="first").sort("night").select("run", "started_s")
        #: The run of each night, and its facts.
        self.runs: list[str] = runs["run"].to_list()
        self.facts = [facts.get(run, {}) for run in runs.iter_rows()]
        self.watch = AlarmWatch(self.log_values, [day.toordinal() for day in self.days])
        self.watch.judge_all()

    def alarm(self, change: NoticedChange) -> Alarm:
        """Return the alarm for a change to the worse."""
        columns = list(range(len(self.keys))) if change.column is None else [change.column]
        log_values = self.log_values[:, columns]
        nights_before = slice(max(0, change.first_night - MAX_NIGHTS_BEFORE), change.first_night)
        levels_before = _median_along(log_values[nights_before], 0)

        def ratio_to_before(nights: slice | NDArray[np.intp]) -> float:
            """Return the ratio of nights to the nights before, the median over all series."""
            return math.exp(_median_along(_median_along(log_values[nights], 0) - levels_before, 0))

        ratio = ratio_to_before(slice(change.first_night, change.noticed_night + 1))
        measured_nights = np.flatnonzero(np.isfinite(log_values).any(axis=1))
        ratio_now = ratio_to_before(measured_nights[-RECENT_NIGHTS:])
        nights_since_noticed = len(self.days) - 1 - change.noticed_night
        _, case, arm, quantity = self.keys[columns[0]]
        if change.column is None:
            case = COMMON_PART_CASE
            arm = ""
            quantity = ""
        facts = self._facts(self.rows if change.column is None else self.rows.filter(case=case))
        return Alarm(
            machine=self.machine,
            campaign=self.campaign,
            case=case,
            arm=arm,
            quantity=quantity,
            since=self.days[change.first_night].isoformat(),
            night=self.days[change.noticed_night].isoformat(),
            run=self.runs[change.noticed_night],
            ratio=ratio,
            ratio_now=ratio_now,
            open=nights_since_noticed < MAX_NIGHTS_BEFORE and ratio_now > math.sqrt(ratio),
            changed=changed_facts(facts, change.first_night),
        )

    def _facts(self, rows: pl.DataFrame) -> list[Mapping[str, str]]:
        """Return the facts of each night's run, with the nodes of `rows`, which are of a case."""
        nodes: dict[date, set[str]] = {}
        for day, names in rows.select("night", "nodes").drop_nulls().iter_rows():
            nodes.setdefault(day, set()).update(names.split(","))
        return [
            {**facts, "nodes": ",".join(sorted(nodes[day]))} if day in nodes else facts
            for day, facts in zip(self.days, self.facts, strict=True)
        ]

    def watched(self, column: int, key: tuple[str, ...]) -> WatchedSeries:
        """Return the state of the series in a column of the table."""
        is_series = (pl.col(name) == value for name, value in zip(SERIES_KEY, key, strict=True))
        unit, better, last_night = (
            self.rows.filter(*is_series)[-1].select("unit", "better", "night").row(0)
        )
        campaign, case, arm, quantity = key
        series = WatchedSeries(
            machine=self.machine,
            campaign=campaign,
            case=case,
            arm=arm,
            quantity=quantity,
            unit=unit,
            last=last_night.isoformat(),
            nights=int(np.isfinite(self.log_values[:, column]).sum()),
        )
        state = self.watch.series[column]
        reference, spread = state.reference(len(self.days)), state.spread
        if len(reference) < MIN_NIGHTS_BEFORE or not math.isfinite(spread):
            return series
        limit = ALARM_LIMIT * state.usual_distance
        return replace(
            series,
            level=math.exp(float(np.median(reference)) * (-1 if better == "higher" else 1)),
            spread=spread,
            detectable=math.expm1(limit * spread) if limit < _MAX_DISTANCE else None,
        )
