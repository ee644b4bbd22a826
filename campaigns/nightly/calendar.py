"""The calendar of a nightly: every scheduled night and how it ended, run or not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, tzinfo
from typing import Any

from analysis.history.tables import Outcome
from campaigns.nightly.summary import Summary
from campaigns.nightly.window import NightWindow


@dataclass(frozen=True)
class ScheduledNight:
    """One night of the calendar."""

    night: date
    #: None while it is running, or may still begin.
    outcome: Outcome | None
    reason: str
    run: str | None = None
    used_node_h: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The night as in JSON."""
        return asdict(self) | {"night": self.night.isoformat()}


def calendar(
    window: NightWindow,
    known: Mapping[date, Summary],
    first: date,
    now_s: float,
    *,
    running: bool,
    zone: tzinfo | None = None,
) -> list[ScheduledNight]:
    """All nights from `first` to now: the scheduled ones, and those made up for by hand.

    If a night is `running`, it is the one that began last of those that have not ended. Without a
    summary a scheduled night was not run. Nothing is said of nights before the first
    summary, if there is one: the nightly may not have been installed.
    """
    first = max(first, min(known, default=first))
    today = datetime.fromtimestamp(now_s, zone).date()
    nights = {night.date: night for night in window.nights(first, today, zone)}
    unfinished = [each for each in known.values() if each.finished_s is None]
    last = max(unfinished, key=lambda each: each.started_s, default=None) if running else None
    found = []
    for day in sorted({*nights, *(each for each in known if each >= first)}):
        if day in known:
            found.append(_told(known[day], running=known[day] is last))
        elif nights[day].end_s <= now_s:
            found.append(ScheduledNight(day, "not run", "nothing was started on that night"))
        elif nights[day].start_s <= now_s:
            found.append(ScheduledNight(day, None, "has not begun"))
    return found


def _told(summary: Summary, *, running: bool) -> ScheduledNight:
    if running:
        return ScheduledNight(summary.night, None, "is running")
    return ScheduledNight(
        summary.night, summary.outcome, summary.reason, summary.run, summary.used_node_h
    )
