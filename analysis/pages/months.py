"""The calendar of nights: months of weeks, each night with how it ended."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from analysis.pages.data import RECORDED, PageNight

#: Outcome -> mark and CSS class; the first one wins where a date has several nights.
OUTCOMES = {
    "slower": ("S", "bad"),
    "machine failed": ("F", "bad"),
    "inconclusive": ("?", "warn"),
    "not run": ("\u2013", "plain"),
    "measured": ("\u2713", "good"),
    RECORDED: ("\u2022", "plain"),
}


@dataclass(frozen=True)
class Day:
    """One day of a month; `mark` is empty if nothing is known of the night."""

    number: int
    mark: str = ""
    look: str = ""
    text: str = ""


@dataclass(frozen=True)
class Month:
    """Weeks from Monday; None is a day of another month."""

    name: str
    weeks: list[list[Day | None]]


def months(nights: Sequence[PageNight]) -> list[Month]:
    """The months from the first to the last night, the latest first."""
    if not nights:
        return []
    of_day: dict[date, list[PageNight]] = {}
    for each in nights:
        of_day.setdefault(each.night, []).append(each)
    first, last = min(of_day), max(of_day)
    starts = [
        date(index // 12, index % 12 + 1, 1)
        for index in range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    ]
    return [_month(start, of_day) for start in reversed(starts)]


def outcome_counts(nights: Sequence[PageNight]) -> dict[str, int]:
    """Outcome -> nights that ended so, in the order of `OUTCOMES`; only those that occur."""
    counts = {name: sum(each.outcome == name for each in nights) for name in OUTCOMES}
    return {name: count for name, count in counts.items() if count}


def _month(start: date, of_day: dict[date, list[PageNight]]) -> Month:
    weeks = [
        [_day(day, of_day.get(day, [])) if day.month == start.month else None for day in week]
        for week in calendar.Calendar().monthdatescalendar(start.year, start.month)
    ]
    return Month(f"{start:%B %Y}", weeks)


def _day(day: date, nights: Sequence[PageNight]) -> Day:
    ended = [each.outcome for each in nights]
    worst = next((name for name in OUTCOMES if name in ended), None)
    if worst is None:
        return Day(day.day)
    mark, look = OUTCOMES[worst]
    text = "; ".join(
        f"{each.campaign}: {each.outcome}" + (f", {each.reason}" if each.reason else "")
        for each in nights
    )
    return Day(day.day, mark, look, text)
