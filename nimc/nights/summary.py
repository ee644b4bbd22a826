"""The summary of a night: one JSON document, of which everything else about it is made.

It is first written when the night begins, as 'machine failed' and unfinished, and replaced when it
ends. So a night that was killed has the right outcome, whoever looks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime, tzinfo
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from analysis.effects.verdict import Verdict
from analysis.history.tables import Outcome
from nimc.base.errors import InputError, MachineError, NimcError
from nimc.base.files import private_lock, replace_text, require_own
from nimc.base.json_limits import read_json, validated
from nimc.nights.description import NightWindow
from nimc.nights.measure import EndedRun
from nimc.records.run import PlainName
from nimc.run.runner import Failure

#: Number of the summary's schema.
SUMMARY_SCHEMA = 1
#: Reason of a night that has begun; if it is not running, that is how it ended.
UNFINISHED = "has not ended: it is running, or was killed; its samples are saved"

_Moment = Annotated[float, Field(ge=0, lt=1e11)]
_Hours = Annotated[float, Field(ge=0, lt=1e12)]
_Figure = Annotated[float, Field(gt=-1e300, lt=1e300)]


@dataclass(frozen=True)
class NightFigure:
    """One quantity of one treatment of a case, SI units (`analysis.history.tables.NIGHTS`)."""

    case: PlainName
    arm: PlainName
    #: `fom`, `slowdown`, `writer_rate`, or `counter:ROLE`.
    quantity: str
    unit: str
    #: `higher` or `lower`.
    better: str
    value: _Figure
    #: Interval of 95 %; null from too few runs.
    low: _Figure | None
    high: _Figure | None
    #: Runs or pairs that it is made of.
    count: int
    #: Of a slowdown; null otherwise.
    verdict: str | None = None


@dataclass(frozen=True)
class NightAlarm:
    """What became slower: than the site's reference, or than the machine's own history."""

    case: PlainName
    arm: PlainName
    quantity: str
    #: `reference` or `history`.
    source: str
    text: str
    #: Whether an operator has seen it: no mail again.
    acknowledged: bool = False


@dataclass(frozen=True)
class Summary:
    """How one night ended."""

    nightly: PlainName
    #: Day on which it was scheduled to start, local time (ISO date).
    night: date
    machine: PlainName
    campaign: PlainName
    started_s: _Moment
    #: Unix time; null if it is running, or was killed.
    finished_s: _Moment | None
    outcome: Outcome
    reason: str
    budget_node_h: _Hours
    used_node_h: _Hours = 0.0
    #: Folder of the run; null if none was begun.
    run: str | None = None
    #: Head of its chain.
    head: str | None = None
    #: All cases of the campaign, and what was measured of them.
    cases: list[PlainName] = field(default_factory=list)
    figures: list[NightFigure] = field(default_factory=list)
    alarms: list[NightAlarm] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    schema: int = SUMMARY_SCHEMA

    def as_dict(self) -> dict[str, Any]:
        """The summary as in JSON."""
        return {"schema": self.schema} | asdict(self) | {"night": self.night.isoformat()}

    def of_case(self, case: str) -> Summary:
        """What it says of one case. Raises InputError for a case that it does not have.

        If its cases are not known, since the campaign was not read, it says the same of each.
        """
        if self.cases and case not in self.cases:
            raise InputError(f"--case: {case!r} found; allowed: {', '.join(self.cases)}")
        return replace(
            self,
            cases=[case],
            figures=[each for each in self.figures if each.case == case],
            alarms=[each for each in self.alarms if each.case == case],
            failures=[each for each in self.failures if each.case == case],
        )


def path_of(folder: Path, nightly: str, night: date) -> Path:
    """File of a night's summary."""
    return folder / f"{nightly}-{night.isoformat()}.json"


def make_folder(folder: Path) -> None:
    """Make the folder of the summaries. Raises InputError unless it is the user's own."""
    folder.mkdir(parents=True, exist_ok=True)
    require_own(folder, "results")


def summary_text(summary: Summary) -> str:
    """The document."""
    return json.dumps(summary.as_dict(), indent=1) + "\n"


def write(path: Path, text: str, mode: int | None = None) -> None:
    """Replace a file: readers see the old or the new one. Raises MachineError."""
    try:
        replace_text(path, text, mode)
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from error


def load(path: Path) -> Summary:
    """Read a summary. Raises InputError if it is missing, invalid or newer."""
    try:
        record = read_json(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    schema = record.get("schema") if isinstance(record, dict) else None
    if type(schema) is int and schema > SUMMARY_SCHEMA:
        raise InputError(
            f"{path}: schema: {str(schema)[:20]} found; allowed: at most {SUMMARY_SCHEMA};"
            " written by a newer nimc, use that version"
        )
    return validated(Summary, record, path)


def summaries(folder: Path, nightly: str) -> Iterator[tuple[date, Path]]:
    """Night and file of all summaries of a nightly, in order."""
    for path in sorted(folder.glob(f"{nightly}-????-??-??.json")):
        try:
            yield date.fromisoformat(path.stem[-10:]), path
        except ValueError:
            continue


def earlier(folder: Path, nightly: str, night: date, most: int) -> list[Summary]:
    """The last summaries before a night that can be read, in order."""
    found = []
    for path in [path for day, path in summaries(folder, nightly) if day < night][-most:]:
        with suppress(InputError):
            found.append(load(path))
    return found


# How a night ended, in one of five ways. Pure.


_OPEN = {verdict.value for verdict in Verdict if verdict.is_open}
_INPUT, _FAILED = 2, 3


def judge_night(
    ended: EndedRun,
    samples: int,
    figures: Sequence[NightFigure],
    alarms: Sequence[NightAlarm],
    failures: Sequence[Failure],
) -> tuple[Outcome, str]:
    """Outcome and reason of a night; `samples`: those that it has added.

    What failed comes first, then what became slower: a loss is never hidden by an open case.
    """
    if ended.stopped is None and (ended.status not in (0, 1) or failures):
        return _failed(ended, samples, failures)
    if not samples and ended.stopped is not None:
        return "not run", f"{ended.stopped} before the first run: no node was free, or none worked"
    if alarms:
        more = f" (and {len(alarms) - 1} more)" if len(alarms) > 1 else ""
        return "slower", f"{alarms[0].text}{more}"
    if ended.stopped is not None:
        return "inconclusive", f"{ended.stopped} before all cases were measured"
    undecided = list(dict.fromkeys(each.case for each in figures if each.verdict in _OPEN))
    if undecided:
        return "inconclusive", f"undecided: {', '.join(undecided)}"
    return "measured", f"{samples} samples" if samples else "the night before had taken all samples"


def _failed(ended: EndedRun, samples: int, failures: Sequence[Failure]) -> tuple[Outcome, str]:
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return "machine failed", f"{failures[0].case}: {failures[0].reason}{more}"
    if ended.status == _INPUT and not samples:
        return "not run", ended.said
    if ended.status in (_INPUT, _FAILED):
        return "machine failed", ended.said
    how = f"was killed by signal {-ended.status}" if ended.status < 0 else "ended"
    return "machine failed", f"nimc run {how} (status {ended.status}): {ended.said}"


# The calendar of a nightly: every scheduled night and how it ended, run or not. Pure.


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
    window: NightWindow | None,
    known: Mapping[date, Summary],
    first: date,
    now_s: float,
    *,
    running: bool,
    zone: tzinfo | None = None,
) -> list[ScheduledNight]:
    """All nights from `first` to now: those of a window, and those that have a summary.

    If a night is `running`, it is the one that began last of those that have not ended. Without a
    summary a scheduled night was not run. Nothing is said of nights before the first summary, if
    there is one: the nightly may not have been installed.
    """
    first = max(first, min(known, default=first))
    today = datetime.fromtimestamp(now_s, zone).date()
    scheduled = window.nights(first, today, zone) if window else ()
    nights = {night.date: night for night in scheduled}
    unfinished = [each for each in known.values() if each.finished_s is None]
    last = max(unfinished, key=lambda each: each.started_s, default=None) if running else None
    found = []
    for day in sorted({*nights, *(each for each in known if each >= first)}):
        if day in known and known[day] is last:
            found.append(ScheduledNight(day, None, "is running"))
        elif day in known:
            of = known[day]
            found.append(ScheduledNight(day, of.outcome, of.reason, of.run, of.used_node_h))
        elif nights[day].end_s <= now_s:
            found.append(ScheduledNight(day, "not run", "nothing was started on that night"))
        elif nights[day].start_s <= now_s:
            found.append(ScheduledNight(day, None, "has not begun"))
    return found


# One night at a time on a machine: a lock in the folder of summaries.


#: How long it is tried: `running` holds it for a moment, seconds.
_TRY_S = 1.0


@contextmanager
def machine_lock(folder: Path, machine: str, name: str) -> Iterator[tuple[int | None, str]]:
    """Lock a machine for the nightly `name`, or find who has it; waits for nobody.

    Gives the lock's handle, which a child that inherits it keeps, or None and the holder: `NAME,
    process PID on HOST`.
    """
    require_own(folder, "results", team="writes")
    with private_lock(folder / f"{machine}.lock") as lock:
        if lock.take(_TRY_S):
            lock.sign(f"{name}, process {os.getpid()} on {os.uname().nodename}")
            yield lock.handle, ""
        else:
            yield None, lock.holder() or "an unknown process"


def running(folder: Path, machine: str, name: str) -> bool:
    """Whether a night of the nightly `name` holds a machine's lock."""
    with (
        suppress(OSError, NimcError),
        private_lock(folder / f"{machine}.lock", create=False) as lock,
    ):
        return not lock.take(shared=True) and lock.holder().startswith(f"{name}, ")
    return False
