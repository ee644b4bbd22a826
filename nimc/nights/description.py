"""The description of a nightly: `site/nightly/NAME.yaml`. `docs/nightly.md` shows it by example."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationError

from nimc.base import marked_yaml, units
from nimc.base.checkout import ROOT
from nimc.base.errors import InputError, show
from nimc.base.marked_yaml import Duration, Marked, Record, Size

# The hours in which a nightly may measure, and the calendar of its nights.
#
# A night has the date of the day on which it starts. Times of day are local; a night in which
# clocks change is an hour shorter or longer. A start that clocks skip is the moment at which they
# do: cron starts a night then, Slurm up to an hour later.


_Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
#: Days of the week, as `date.weekday` counts them.
DAYS: tuple[_Day, ...] = get_args(_Day)


@dataclass(frozen=True)
class Night:
    """One night of the calendar."""

    date: date
    start_s: float
    end_s: float

    def moved_to(self, now_s: float) -> Night:
        """The same night, made up for from `now_s` on, at the same length."""
        return Night(self.date, now_s, now_s + self.end_s - self.start_s)


def _first_s(local: datetime, zone: tzinfo | None) -> float:
    """The first moment at which clocks show this time, or a later one if they skip it."""
    found_s = min(local.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    while datetime.fromtimestamp(found_s, zone).replace(tzinfo=None) < local:
        found_s += 60
    return found_s


#: What a night's own job may take beyond the window, seconds.
MARGIN_S = 15 * 60

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9._%+-]+(@[A-Za-z0-9.-]+)?", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def _time(text: object) -> time:
    if isinstance(text, time):
        return text
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f'{show(text)} found; allowed: a time of day, such as "22:00"')
    return time(int(found[1]), int(found[2]))


def _matching(pattern: re.Pattern[str], allowed: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{show(text)} found; allowed: {allowed}")
        return text

    return check


def _path(text: object) -> Path:
    if not isinstance(text, str) or not text or not text.isprintable():
        raise ValueError(f"{show(text)} found; allowed: a path")
    return ROOT / text


def _url(text: str) -> str:
    if not text.isprintable() or not text.startswith(("http://", "https://", "$")):
        raise ValueError(f"{show(text)} found; allowed: http://..., https://..., or $VARIABLE")
    return text


def _days(days: list[str]) -> list[str]:
    if not days or len(set(days)) < len(days):
        raise ValueError(f"{show(days)} found; allowed: each day once: {' '.join(DAYS)}")
    return days


_Time = Annotated[time, BeforeValidator(_time)]
_Path = Annotated[Path, BeforeValidator(_path)]
_Address = Annotated[str, AfterValidator(_matching(_ADDRESS, "a mail address"))]
_Tag = Annotated[str, AfterValidator(_matching(_WORD, "a word"))]


class NightWindow(Record):
    """When a night may measure: start and end as times of day, and the days on which it starts."""

    start: _Time
    end: _Time
    days: Annotated[list[_Day], AfterValidator(_days)] = list(DAYS)

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
        end, start = (each.hour * 60 + each.minute for each in (self.end, self.start))
        return 60 * ((end - start) % 1440 or 1440)


class Retention(Record):
    """How long stored runs are kept; None: for ever, however large."""

    age_s: Duration | None = Field(default=None, alias="age")
    size_b: Size | None = Field(default=None, alias="size")


class Notification(Record):
    """Where a night reports to: mail if its outcome is not `measured`, the webhook always."""

    mail: list[_Address] = []
    webhook: Annotated[str, AfterValidator(_url)] | None = None


class Nightly(Record):
    """One file of `site/nightly/`. Paths begin at the checkout unless they are absolute."""

    machine: _Tag
    #: The campaign's file.
    campaign: _Path
    #: When it may measure.
    window: NightWindow
    #: Node-hours that a night may use.
    budget_node_h: float = Field(alias="budget", gt=0)
    #: An unfinished run that is older is not resumed.
    fresh_after_s: Duration = Field(default=20 * units.SECONDS["h"], alias="fresh_after")
    #: Whether cases that raise an alarm are run again in the same night.
    confirm: bool = True
    #: Folder of its runs.
    results: _Path = ROOT / "results"
    retention: Retention = Retention()
    #: Folders of the pages and of node_exporter's textfile collector; None: none are written.
    pages: _Path | None = None
    metrics: _Path | None = None
    tell: Notification = Notification()
    #: Options of the Slurm job that is the night itself, under scrontab and Jacamar.
    job: list[Annotated[str, Field(pattern=r"^-\S+$")]] = []
    #: Tags of the GitLab runner on the machine.
    runner_tags: list[_Tag] = []
    _marked: Marked = PrivateAttr()

    @property
    def name(self) -> str:
        """Its name, that of its file."""
        return self._marked.path.stem

    @property
    def longest_s(self) -> int:
        """How long a night's own job may take: after the window it still stops and reports."""
        return self.window.length_s + MARGIN_S

    @property
    def target(self) -> str:
        """How a command names it: by name, or by path if it is not in the checkout."""
        own = ROOT / "site" / "nightly" / self._marked.path.name
        return self.name if own == self._marked.path else str(self._marked.path.absolute())

    @property
    def unique_name(self) -> str:
        """Its name, with a hash of its path if it is not in the checkout."""
        if self.target == self.name:
            return self.name
        return f"{self.name}-{hashlib.sha256(self.target.encode()).hexdigest()[:8]}"

    @property
    def store(self) -> Path:
        """Where `nimc store` keeps the history of these results."""
        return self.results / "store"

    @property
    def folder(self) -> Path:
        """Folder of the summaries of its nights."""
        return self.results / "nights"

    def refuse(self, field: str, found: str, allowed: str) -> InputError:
        """An error in a field that only a look at the campaign shows."""
        at = f"{self._marked.path}:{self._marked.line((field,))}"
        return InputError(f"{at}: {field}: {found}; allowed: {allowed}")


def load(name: str, root: Path = ROOT) -> Nightly:
    """The nightly of that name in `site/nightly/`, or in the file of that path.

    Raises InputError with file, line, field and what is allowed.
    """
    is_path = name.endswith(".yaml")
    path = Path(name) if is_path else root / "site" / "nightly" / f"{name}.yaml"
    if not _NAME.fullmatch(path.stem if is_path else name) or not name.isprintable():
        raise InputError(
            f"nightly {show(name)}: invalid name; allowed: letters, digits and ._- (40 at most), or"
            " a path that ends in .yaml"
        )
    if not os.path.lexists(path):
        known = sorted(each.stem for each in (root / "site" / "nightly").glob("*.yaml"))
        raise InputError(f"{path}: not found; known nightlies: {', '.join(known) or 'none'}")
    marked = marked_yaml.read(path)
    try:
        found = Nightly.model_validate(marked.data)
    except ValidationError as error:
        raise InputError(marked_yaml.first([marked], error, Nightly)) from None
    found._marked = marked
    return found
