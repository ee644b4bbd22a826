"""What the pages say of alarms and nights. Pure.

Of alarms: when they end, which belong together, and in words. Of nights: those that ran, those that
should have, and those still slower.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from statistics import median
from typing import get_args

import polars as pl

from analysis.history.alarms import Acknowledgement, Alarm, ChangedFact, NodeRatio, facts_of
from analysis.history.tables import COUNTER, Outcome, Series, series_of
from analysis.pages.data import RECORDED, MachineHistory, PageNight
from analysis.report.words import utc
from analysis.statistics.interval import Estimate, Interval
from analysis.statistics.nights import ratio_of_nights
from nimc.base.text import one_line
from nimc.base.units import plural
from nimc.records.arms import BASELINE, arm_of, name_of, parts_of

#: Alarms began together if their first nights are so many days apart: dates may err by a night.
_TOGETHER_DAYS = 3
#: A number is unusual beyond so many robust spreads (1.4826 median absolute deviations).
_SPREADS = 3.0
_MAD = 1.4826
#: A text changes often if it differs from the run before in a larger share of runs.
_OFTEN = 0.1


@dataclass(frozen=True)
class ShownAlarm:
    """An alarm with what its machine's other nights say of it."""

    alarm: Alarm
    #: First night that is not slower any more (ISO date); None while the alarm is open.
    until: str | None
    #: Facts that changed beyond what they usually do.
    changed: list[ChangedFact]
    #: The same without writes, as a ratio of times; None if there is no such series, or it is that.
    without_writes: Estimate | None
    #: Whether that series raised an alarm at the same time.
    is_alarm_without: bool

    @property
    def node(self) -> NodeRatio | None:
        """The worst node, if it is worse than the others by half of the loss at least."""
        node = self.alarm.worst_node
        return node if node and node.ratio**2 >= max(self.alarm.ratio, 1.0) > 1 else None


@dataclass(frozen=True)
class AlarmGroup:
    """Alarms that began together, and share a changed fact or have none."""

    alarms: list[ShownAlarm]

    @property
    def until(self) -> str | None:
        """First night after all of them; None while one is open."""
        ends = [each.until for each in self.alarms]
        return None if None in ends else max(filter(None, ends))

    @property
    def acknowledged(self) -> Acknowledgement | None:
        """The last one, if all of its open alarms have been seen; of an ended group, if any was."""
        seen = [each.alarm.acknowledged for each in self.alarms if self.until or not each.until]
        found = [each for each in seen if each]
        is_seen = found and (self.until or len(found) == len(seen))
        return max(found, key=lambda each: each.at_s) if is_seen else None

    @property
    def look(self) -> str:
        """CSS class of its colour."""
        return "plain" if self.until else look_of(self.acknowledged)

    @property
    def lead(self) -> ShownAlarm:
        """The one that is shown first: open, of a figure of merit, with the largest loss."""
        return max(self.alarms, key=_weight)

    @property
    def since(self) -> str:
        """The first night of the first of them."""
        return min(each.alarm.since for each in self.alarms)

    @property
    def changed(self) -> list[ChangedFact]:
        """What changed at the same time, each fact once."""
        return list(dict.fromkeys(fact for each in self.alarms for fact in each.changed))

    @property
    def nodes(self) -> list[NodeRatio]:
        """The worst nodes."""
        return list(dict.fromkeys(each.node for each in self.alarms if each.node))

    @property
    def states(self) -> list[str]:
        """When they were raised, what further runs said, and who has seen them, each once."""
        alarms = [each.alarm for each in self.alarms]
        by = ((each, ", ".join(each.confirmed_by)) for each in alarms)
        found = [f"{a.state}{f' by {runs}' if runs else ''}, raised {a.night}" for a, runs in by]
        found += [
            f"acknowledged by {one_line(seen.by)} on {utc(seen.at_s)}: {one_line(seen.reason)}"
            for each in alarms
            if (seen := each.acknowledged)
        ]
        return list(dict.fromkeys(found))

    @property
    def sentences(self) -> list[str]:
        """One sentence an alarm, the lead first."""
        rest = [each for each in self.alarms if each is not self.lead]
        return [sentence(each) for each in (self.lead, *rest)]

    @property
    def text(self) -> str:
        """The lead's sentence, and how many more quantities are worse."""
        more = len(self.alarms) - 1
        return sentence(self.lead) + (f" {more} more of the same beginning." if more else "")


def shown_alarms(history: MachineHistory) -> list[ShownAlarm]:
    """The machine's alarms by night."""
    if not history.alarms:
        return []
    series = {each.key: each for each in series_of(history.nights)}
    facts = facts_of(history.runs)
    found = []
    for each in sorted(history.alarms, key=lambda each: each.night):
        baseline = _baseline(each, series)
        as_well = (
            other.state != "dismissed" and _began_together(other, each)
            for other in history.alarms
            if baseline and other.key == baseline.key
        )
        changed = _unusual_facts(each, series.get(each.key), facts)
        ratio = _ratio(each, baseline) if baseline else None
        found.append(ShownAlarm(each, _until(each, history), changed, ratio, any(as_well)))
    return found


def alarm_groups(shown: Sequence[ShownAlarm]) -> list[AlarmGroup]:
    """The alarms that belong together: open ones, the largest first; then others, the latest."""
    groups: list[AlarmGroup] = []
    for each in sorted(shown, key=lambda each: each.alarm.since):
        for group in groups:
            first = group.alarms[0]
            share = set(each.changed) & set(first.changed) or not (each.changed or first.changed)
            if share and _began_together(each.alarm, first.alarm):
                group.alarms.append(each)
                break
        else:
            groups.append(AlarmGroup([each]))
    groups.sort(key=lambda group: group.since, reverse=True)
    still = sorted((g for g in groups if not g.until), key=lambda g: _weight(g.lead), reverse=True)
    return [*still, *(group for group in groups if group.until)]


def _weight(each: ShownAlarm) -> tuple[bool, bool, bool, float]:
    """Sort key: larger for what is shown first."""
    is_fom = each.alarm.quantity == "fom"
    return each.until is None, is_fom, each.without_writes is not None, each.alarm.ratio


def look_of(seen: Acknowledgement | None) -> str:
    """CSS class of the colour of what is open: not red if a user has acknowledged it."""
    return "warn" if seen else "bad"


def open_alarms(shown: Sequence[ShownAlarm]) -> dict[tuple[str, str, str, str], Alarm]:
    """Key of a series -> its open alarm."""
    return {each.alarm.key: each.alarm for each in shown if each.until is None}


def is_unusual(fact: ChangedFact, past: Sequence[str | None]) -> bool:
    """Whether a fact changed beyond what it did in `past`, its values in the runs before.

    A number does beyond `_SPREADS` robust spreads from its median. A text does if it rarely
    changed, or if the value is new and new ones were rare.
    """
    numbers = [_number(text) for text in (*past, fact.after)]
    if past and None not in numbers:
        *old, new = (each for each in numbers if each is not None)
        middle = median(old)
        spread = _MAD * median(abs(each - middle) for each in old)
        return abs(new - middle) > _SPREADS * spread
    most = _OFTEN * (len(past) - 1)
    is_new = fact.after not in past and len(set(past)) - 1 <= most
    return not past or is_new or sum(a != b for a, b in pairwise(past)) <= most


def sentence(each: ShownAlarm) -> str:
    """What is worse by how much since when, and whether without writes as well."""
    alarm = each.alarm
    is_silent = arm_of(alarm.arm).silent
    name = "" if alarm.arm == BASELINE else f" ({alarm.arm})"
    arm = f"with{'out' if is_silent else ''} writes{name}"
    what, how = {
        "fom": (f"{alarm.case} {arm} is", "slower"),
        "slowdown": (f"The slowdown of {alarm.case} {arm} is", "larger"),
        "writer_rate": (f"The writers of {alarm.case} ({alarm.arm}) are", "slower"),
    }.get(
        alarm.quantity,
        (f"{alarm.quantity.removeprefix(COUNTER)} of {alarm.case} {arm} is", "more"),
    )
    loss = _percent(alarm.ratio, alarm.interval)
    until = f" until {each.until}" if each.until else ""
    machine = ", so it is the machine" if alarm.quantity == "fom" and is_silent else ""
    return f"{what} {loss} {how} since {alarm.since}{until}{_as_well(each) or machine}."


def _as_well(each: ShownAlarm) -> str:
    found = each.without_writes
    if found is None:
        return ""
    loss = _percent(found.value, Interval.of(found))
    half = math.sqrt(each.alarm.ratio)
    if (found.low > 1 or each.is_alarm_without) and found.value >= half:
        return f"; without writes as well, by {loss}, so it is the machine"
    if found.high < half:
        return f"; without writes less than half of that, {loss}"
    return f"; without writes {loss}, too uncertain to say whether it is the machine"


def _percent(ratio: float, interval: Interval | None) -> str:
    """A ratio of times as a loss with its interval: `4.9 % (4.1 to 5.7)`."""
    value, *ends = (
        f"{round((each - 1) * 100, 1) + 0.0:.1f}".replace("-", "\u2212")
        for each in (ratio, *(interval or ()))
    )
    return f"{value} %" + (f" ({' to '.join(ends)})" if ends else "")


def _until(alarm: Alarm, history: MachineHistory) -> str | None:
    """The first night after an alarm: where it was dismissed, replaced, or its figures are back."""
    later = (each.night for each in history.alarms if each.key == alarm.key)
    better = (
        change.since
        for watch in history.watches
        if watch.key == alarm.key
        for change in watch.changes
        if not change.worse and change.noticed >= alarm.night
    )
    dismissed = alarm.night if alarm.state == "dismissed" else None
    ends = [*(night for night in later if night > alarm.night), *better, dismissed, alarm.back]
    return min(filter(None, ends), default=None)


def _unusual_facts(
    alarm: Alarm, series: Series | None, facts: Mapping[str, Mapping[str, str]]
) -> list[ChangedFact]:
    before = [facts[run] for run, is_old in _runs_of(alarm, series) if is_old and run in facts]
    return [
        fact for fact in alarm.changed if is_unusual(fact, [each.get(fact.name) for each in before])
    ]


def _runs_of(alarm: Alarm, series: Series | None) -> list[tuple[str, bool]]:
    """The runs that an alarm rests on, and whether each is before the change."""
    if series is None:
        return []
    rests = set(alarm.runs)
    nights = zip(series.runs, series.nights, strict=True)
    return [(run, night.isoformat() < alarm.since) for run, night in nights if run in rests]


def _baseline(alarm: Alarm, series: Mapping[tuple[str, str, str, str], Series]) -> Series | None:
    """The series that a figure of merit with writes is paired with."""
    if alarm.quantity != "fom" or arm_of(alarm.arm).silent:
        return None
    names = (name_of(BASELINE, parts_of(alarm.arm)[1]), BASELINE)
    found = (series.get((alarm.campaign, alarm.case, name, "fom")) for name in names)
    return next(filter(None, found), None)


def _ratio(alarm: Alarm, series: Series) -> Estimate | None:
    """A series on the nights of an alarm: since the change against before."""
    times = dict(zip(series.runs, map(math.exp, series.worse), strict=True))
    runs = _runs_of(alarm, series)
    since = [times[run] for run, is_old in runs if not is_old]
    difference = ratio_of_nights(since, [times[run] for run, is_old in runs if is_old])
    return difference.ratio if difference else None


def _began_together(one: Alarm, other: Alarm) -> bool:
    days = date.fromisoformat(one.since) - date.fromisoformat(other.since)
    return abs(days.days) <= _TOGETHER_DAYS


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


#: Outcome of a night that measured as long as an alarm of its campaign was open.
STILL_SLOWER = "still slower"
#: Outcomes of nights that were expected and measured nothing.
MISSED = ("not run", "machine failed")
#: Nights of so many last days are counted.
RECENT_DAYS = 60
_OUTCOMES = get_args(Outcome)
#: Fewest nights from which a usual gap is known.
_FEWEST = 7
#: Days in which missing nights are listed: a run with a wrong clock may be centuries away.
_LONGEST_DAYS = 366
#: Nights of a day of the week from which its other days are compared with it.
_WEEKS = 3


def calendar_nights(history: MachineHistory, shown: Sequence[ShownAlarm]) -> list[PageNight]:
    """All nights of the machine with their outcome: summaries first, else what runs record.

    Without a schedule, nights that the usual gap lets expect are `not run`.
    """
    known = {each.run for each in history.outcomes}
    started = pl.from_epoch(pl.col("started_s").cast(pl.Int64)).dt.date()
    recorded = history.runs.select(started, "campaign", "outcome", "run").iter_rows()
    rest = [
        PageNight(night, campaign, outcome if outcome in _OUTCOMES else RECORDED, "", run)
        for night, campaign, outcome, run in recorded
        if run not in known
    ]
    nights = [*history.outcomes, *rest]
    gap = usual_gap(nights)
    if gap and not history.schedules:
        reason = f"nothing is known of it; the usual gap is {plural(gap, 'day')}"
        days = missing_days([each.night for each in nights], gap, made_on(history))
        nights += [PageNight(day, "", "not run", reason) for day in days]
    return sorted(_still_slower(history, nights, shown), key=lambda each: each.night)


def made_on(history: MachineHistory) -> date:
    """The day (UTC) on which it was known."""
    return datetime.fromtimestamp(history.known_s, timezone.utc).date()


def usual_gap(nights: Sequence[PageNight], share: float = 0.5) -> int | None:
    """Days from a run to the next that a share of them does not exceed; None if too few ran."""
    days = sorted({each.night for each in nights if each.run})
    gaps = sorted((after - before).days for before, after in pairwise(days))
    return gaps[int(share * (len(gaps) - 1))] if len(days) >= _FEWEST else None


def missing_days(known: Sequence[date], gap: int, until: date) -> list[date]:
    """Days of the year before `until` on which the usual gap lets expect a night that is not known.

    A night may be late by half of the gap. Days of the week on which nights hardly ever ran, less
    than a quarter as often as on one that had three, are not expected.
    """
    ran = Counter(day.weekday() for day in set(known))
    most = max(ran.values(), default=0)
    usual = {day for day in range(7) if most < _WEEKS or 4 * ran[day] >= most}
    past = sorted({day.toordinal() for day in known if day < until})
    expected = (
        date.fromordinal(day)
        for before, after in pairwise([*past, until.toordinal()])
        for day in range(before + gap, after - gap // 2, gap)
    )
    first = until - timedelta(_LONGEST_DAYS)
    return [day for day in expected if day >= first and day.weekday() in usual]


def recent(history: MachineHistory, nights: Sequence[PageNight]) -> list[PageNight]:
    """The nights of the last `RECENT_DAYS` days."""
    first = made_on(history) - timedelta(RECENT_DAYS)
    return [each for each in nights if each.night >= first]


def _still_slower(
    history: MachineHistory, nights: Sequence[PageNight], shown: Sequence[ShownAlarm]
) -> list[PageNight]:
    """The nights, those that measured between an alarm and its end as such."""
    day_of = dict(history.nights.select("run", pl.col("night").cast(pl.String)).iter_rows())
    found = []
    for each in nights:
        day = day_of.get(each.run, "")
        since = [
            one.alarm.since
            for one in shown
            if one.alarm.campaign == each.campaign and one.alarm.state != "dismissed"
            if one.alarm.night <= day and (one.until is None or day < one.until)
        ]
        if since and each.outcome not in ("slower", *MISSED):
            reason = f"since {min(since)}; {each.outcome}"
            each = replace(each, outcome=STILL_SLOWER, reason=reason)
        found.append(each)
    return found
