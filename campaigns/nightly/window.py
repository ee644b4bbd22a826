"""The hours in which a nightly may measure, and the calendar of its nights.

A night has the date of the day on which it starts. Times of day are local; a night in which clocks
change is an hour shorter or longer. A start that clocks skip is the moment at which they do: cron
starts a night then, Slurm up to an hour later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

#: Days of the week, as `date.weekday` counts them.
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True)
class Night:
    """One night of the calendar."""

    date: date
    start_s: float
    end_s: float

    def moved_to(self, now_s: float) -> Night:
        """The same night, made up for from `now_s` on, at the same length."""
        return Night(self.date, now_s, now_s + self.end_s - self.start_s)


@dataclass(frozen=True)
class NightWindow:
    """Start and end as times of day, and the days on which it starts."""

    start: time
    end: time
    days: Sequence[str]

    def night_on(self, day: date, zone: tzinfo | None = None) -> Night:
        """The night that starts on a day, scheduled or not; `zone` None is the host's."""
        last = day if self.end > self.start else day + timedelta(days=1)
        end = datetime.combine(last, self.end, zone)
        return Night(day, _first_s(datetime.combine(day, self.start), zone), end.timestamp())

    def night_at(self, now_s: float, zone: tzinfo | None = None) -> Night | None:
        """The scheduled night that contains a moment."""
        today = datetime.fromtimestamp(now_s, zone).date()
        for day in (today - timedelta(days=1), today):
            night = self.night_on(day, zone)
            if self.is_scheduled(day) and night.start_s <= now_s < night.end_s:
                return night
        return None

    def nights(self, first: date, last: date, zone: tzinfo | None = None) -> Iterator[Night]:
        """The scheduled nights that start from `first` to `last`, both included."""
        for number in range((last - first).days + 1):
            day = first + timedelta(days=number)
            if self.is_scheduled(day):
                yield self.night_on(day, zone)

    def is_scheduled(self, day: date) -> bool:
        """Whether a night starts on that day."""
        return DAYS[day.weekday()] in self.days

    @property
    def length_s(self) -> int:
        """Length of a night in which no clock changes."""
        minutes = (each.hour * 60 + each.minute for each in (self.end, self.start))
        end, start = minutes
        return 60 * ((end - start) % 1440 or 1440)


def _first_s(local: datetime, zone: tzinfo | None) -> float:
    """The first moment at which clocks show this time, or a later one if they skip it."""
    found_s = min(local.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    while datetime.fromtimestamp(found_s, zone).replace(tzinfo=None) < local:
        found_s += 60
    return found_s
