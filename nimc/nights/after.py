"""What follows a night's measurement: the store, alarms on the history, old runs, pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from analysis.history.alarm import Alarm
from analysis.history.alarms import alarms, save
from analysis.history.store import add_run, load_nights, load_runs
from nimc.base.checkout import ROOT
from nimc.base.errors import InputError
from nimc.base.programs import ask
from nimc.nights.description import Nightly, Retention
from nimc.nights.measure import environment
from nimc.nights.summary import NightAlarm, Summary
from nimc.run.session import NIMC

#: How long old runs may take to remove, and pages to make, seconds.
_LONGEST_S = 1800.0


def raised(nightly: Nightly, run: Path) -> list[Alarm]:
    """Add the run to the store, and return the alarms that it raised on the machine's history.

    Their states follow from all runs of the store. Raises InputError for a run that the store does
    not take.
    """
    added = add_run(nightly.store, run)
    tables = [load(nightly.store, machine=added.machine) for load in (load_nights, load_runs)]
    found = alarms(*tables)
    save(nightly.store, found)
    return [each for each in found if (each.campaign, each.run) == (added.campaign, added.run)]


def night_alarm(alarm: Alarm) -> NightAlarm:
    """An alarm as the night's summary has it."""
    return NightAlarm(alarm.case, alarm.arm, alarm.quantity, "history", alarm_text(alarm))


def conclude(nightly: Nightly, ended: Summary) -> Iterator[str]:
    """Store how the night ended, remove old runs, make the pages; yields what went wrong."""
    asked = nightly.asked
    if ended.run and ended.finished_s is not None:
        try:
            add_run(nightly.store, Path(ended.run), outcome=ended.outcome)
        except InputError as error:
            yield f"store: {error}"
    if not nightly.store.is_dir():
        return
    where = ["--results", str(nightly.results), "--store", str(nightly.store)]
    if limits := _limits(asked.retention):
        yield from _nimc("store", "prune", *where, *limits, "--yes")
    if asked.pages:
        yield from _nimc("pages", *where, "--output", str(ROOT / asked.pages))


def _limits(retention: Retention) -> Sequence[str]:
    age = [] if retention.age_s is None else ["--older-than", f"{retention.age_s:f}s"]
    return [*age, *([] if retention.size_b is None else ["--larger-than", f"{retention.size_b}B"])]


def _nimc(*words: str) -> Iterator[str]:
    """Run another command of this project; yields its last line if it fails."""
    answer = ask([*NIMC, *words], environment(), timeout_s=_LONGEST_S, folder=ROOT)
    if not answer.ok:
        yield f"nimc {words[0]}: {answer.last.removeprefix('nimc: ')}"


def alarm_text(alarm: Alarm) -> str:
    """An alarm in one line."""
    loss = f"{(alarm.ratio - 1) * 100:.2g} % worse than the machine's history"
    if alarm.ratio_low is not None and alarm.ratio_high is not None:
        low, high = ((each - 1) * 100 for each in (alarm.ratio_low, alarm.ratio_high))
        loss += f" [{low:.2g}, {high:.2g}]"
    return f"{alarm.case} {alarm.arm}: {alarm.quantity} {loss} since {alarm.since}, {alarm.state}"
