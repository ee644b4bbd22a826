"""The nights of a machine: those that ran, those that should have, and those still slower. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from typing import get_args

import polars as pl

from analysis.history.tables import Outcome
from analysis.pages.alarms import ShownAlarm
from analysis.pages.data import RECORDED, MachineHistory, PageNight
from nimc.base.units import plural

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
