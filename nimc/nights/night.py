"""One night: lock, window, budget; the campaign, its outcome, and what follows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import date
from itertools import chain
from pathlib import Path

from analysis.history.alarms import Alarm, acknowledged, save, survey
from analysis.history.extract import nights_frame
from analysis.history.files import Naming
from analysis.history.store import add_run, load_nights, load_runs
from analysis.history.tables import Outcome
from analysis.pages.alarms import open_alarms, shown_alarms
from analysis.pages.data import history_of
from analysis.report.data import load_run
from nimc.base.checkout import ROOT
from nimc.base.errors import InputError, NimcError
from nimc.base.programs import ask
from nimc.base.text import visible
from nimc.campaign.plan import Plan, Request
from nimc.campaign.prepare import prepare
from nimc.cluster import reservation
from nimc.cluster.reservation import Reservation
from nimc.nights import notify, summary
from nimc.nights.description import Night, Nightly
from nimc.nights.measure import EndedRun, NightRuns, NightSession, environment
from nimc.nights.summary import (
    UNFINISHED,
    NightAlarm,
    NightFigure,
    Summary,
    judge_night,
    machine_lock,
)
from nimc.records.arms import BASELINE
from nimc.run.folder import link_latest
from nimc.run.runner import Failure
from nimc.run.session import NIMC

# Maintenance reservations of Slurm that a night would run into.


def in_the_way(found: Sequence[Reservation], start_s: float, end_s: float) -> Reservation | None:
    """The first maintenance that begins before a night's end and is not over at its start.

    Slurm prints local times of the host.
    """
    ahead = [
        each
        for each in found
        if "MAINT" in each.flags and each.start.timestamp() < end_s
        if each.end.timestamp() > start_s
    ]
    return min(ahead, key=lambda each: each.start, default=None)


#: Outcomes after which a night is not tried again.
_DONE: tuple[Outcome, ...] = ("measured", "slower", "inconclusive")
#: Years in which every day is a moment of every host's clock.
_YEARS = (1971, 9998)


class NotRunError(Exception):
    """The night is not run, for this reason."""


@dataclass(frozen=True)
class NightRun:
    """One night of a nightly."""

    nightly: Nightly
    night: Night
    log: Callable[[str], None]
    clock_s: Callable[[], float] = time.time
    #: Whether the log of `nimc run` has a line for every run.
    verbose: bool = False

    @property
    def path(self) -> Path:
        """File of its summary."""
        return summary.path_of(self.nightly.folder, self.nightly.name, self.night.date)

    def run(self) -> Summary:
        """Run the night, or report why not; write its summary, and send it by mail and webhook.

        Raises InputError for a description or a campaign that cannot be run, once that is written.
        """
        folder = self.nightly.folder
        summary.make_folder(folder)
        with machine_lock(folder, self.nightly.machine, self.nightly.name) as (lock, holder):
            before = None
            with suppress(InputError):  # what an earlier attempt of the same night has left
                before = summary.load(self.path)
            if lock is None:
                return self._busy(holder, before)
            if before and before.finished_s is not None and before.outcome in _DONE:
                self.log(f"night {self.night.date} is done: {before.outcome}; {self.path}")
                return before
            return self._locked(lock, before)

    def _busy(self, holder: str, before: Summary | None) -> Summary:
        found = replace(
            before or self._begun(),
            outcome="not run",
            reason=f"another night is running on this machine: {holder}",
            finished_s=self.clock_s(),
        )
        if before or holder.startswith(f"{self.nightly.name}, "):
            self.log(found.reason)  # what the running night writes stays
            return found
        return self._end(found, has_lock=False)

    def _locked(self, lock: int, before: Summary | None) -> Summary:
        begun = self._begun()
        if before and before.outcome != "not run":
            age_s = begun.started_s - before.started_s
            if age_s < self.nightly.fresh_after_s:
                begun = replace(begun, started_s=before.started_s)  # both have one budget
        try:
            request = prepare(self.nightly.campaign, self.nightly.machine)
            planned = request.plan()
            cases = [case.case for case in planned.cases]
            begun = replace(begun, campaign=planned.campaign, cases=cases)
            ended = self._measured(request, planned, begun, lock)
        except NotRunError as error:
            ended = replace(begun, outcome="not run", reason=str(error))
        except NimcError as error:
            self._end(self.failed(error, begun))
            raise
        return self._end(ended)

    def _measured(self, request: Request, planned: Plan, begun: Summary, lock: int) -> Summary:
        """Raises NotRunError before anything is begun, if nothing shall be."""
        runs = NightRuns.of(self.nightly.results, request, planned, begun.started_s)
        session = NightSession(
            self.nightly,
            runs,
            slurm=request.slurm,
            end_s=self.night.end_s,
            budget_node_h=begun.budget_node_h,
            log=self.path.with_suffix(".log"),
            lock=lock,
            clock_s=self.clock_s,
            verbose=self.verbose,
        )
        run = runs.measured
        try:
            if run:
                add_run(self.nightly.store, run)
        except InputError:  # it is measured again
            run = None
        if run is None:
            ended = self._campaign(planned, begun, session)
            run = runs.current() or ended.concluded
        else:
            runs.found, ended = run, EndedRun(0)
            self._say(f"{run} is finished: this night had measured it, and continues from there")
            summary.write(self.path, summary.summary_text(begun))
        judged = self._judged(begun, ended, run, session)
        if run:
            link_latest(run)  # repeats have some of the cases only
        return replace(judged, used_node_h=runs.used_node_h())

    def _campaign(self, planned: Plan, begun: Summary, session: NightSession) -> EndedRun:
        """Resume the campaign's run, or begin one."""
        runs = session.night
        age_s = self.clock_s() - runs.unfinished_s if runs.unfinished_s is not None else None
        fresh = age_s is None or age_s > self.nightly.fresh_after_s
        if fresh:
            self._require_budget(planned, begun.budget_node_h - runs.used_node_h())
        if session.slurm:
            ahead = in_the_way(reservation.find_all(), self.clock_s(), self.night.end_s)
            if ahead:
                raise NotRunError(f"maintenance {ahead.name} from {ahead.start}, on {ahead.nodes}")
        summary.write(self.path, summary.summary_text(begun))
        return session.measure(runs, *(["--fresh"] if fresh else []))

    def _judged(
        self, begun: Summary, ended: EndedRun, run: Path | None, session: NightSession
    ) -> Summary:
        samples = session.night.new_samples()
        data = load_run(run, force=True) if run else None  # whoever stores it refuses faults
        names = [each.name for each in fields(NightFigure)]
        watched = nights_frame(data).select(names).iter_rows(named=True) if data else ()
        found = [NightFigure(**row) for row in watched]
        # Baselines that fall short of the site's references; each once.
        results = data.results if data else ()
        slower = {row.case: row for row in results if row.slower_than_reference}
        alarms = [
            NightAlarm(case, BASELINE, "fom", "reference", f"{case}: {row.notes[0]}")
            for case, row in slower.items()
        ]
        if run and data and data.header.finished_s is not None:
            alarms += self._raised(run, session)
        if data and alarms:
            with suppress(InputError):  # there is no store yet
                known = seen(self.nightly, data.header.campaign, self._say)
                alarms = [
                    replace(a, acknowledged=(a.case, a.arm, a.quantity) in known) for a in alarms
                ]
        failures = [Failure(**each) for each in ended.document.get("failures", [])]
        outcome, reason = judge_night(ended, samples, found, alarms, failures)
        return replace(
            begun,
            outcome=outcome,
            reason=reason,
            run=str(run) if run else None,
            head=data.integrity.head if data else None,
            figures=found,
            alarms=alarms,
            failures=failures,
        )

    def _raised(self, run: Path, session: NightSession) -> list[NightAlarm]:
        """Alarms of the history, confirmed if that is possible; those dismissed are left out.

        Without a history the night still has its references.
        """
        try:
            found = raised(self.nightly, run)
            suspected = any(each.state == "suspected" for each in found)
            if self.nightly.confirm and suspected:
                for line in session.repeat(run, found):
                    self._say(line)
                found = raised(self.nightly, run)
        except InputError as error:
            self._say(f"store: {error}")
            return []
        for each in found:
            self._say(f"alarm: {alarm_text(each)}")
        return [
            NightAlarm(each.case, each.arm, each.quantity, "history", alarm_text(each))
            for each in found
            if each.state != "dismissed"
        ]

    def _require_budget(self, planned: Plan, left_node_h: float) -> None:
        least = planned.as_dict()["node_hours_least"]
        requested = self.nightly.budget_node_h
        if least > requested:
            found = f"{requested:g} node-hours found"
            allowed = f"from {least:.3g}, which the plan needs"
            raise self.nightly.refuse("budget", found, allowed)
        if least > left_node_h:
            raise NotRunError(f"{left_node_h:.3g} node-hours are left; {least:.3g} are needed")

    def failed(self, error: NimcError, begun: Summary | None = None) -> Summary:
        """How the night ended with an error."""
        return replace(
            begun or self._begun(),
            finished_s=self.clock_s(),
            outcome="not run" if isinstance(error, InputError) else "machine failed",
            reason=str(error).split("\n")[0],
        )

    def _begun(self) -> Summary:
        return _begun(self.nightly, self.night.date, self.clock_s())

    def _end(self, ended: Summary, *, has_lock: bool = True) -> Summary:
        """Write the summary, and tell who asked; a failure to tell is reported, and no more.

        Without the lock another night is measuring: removing runs and making pages is left to it.
        """
        ended = replace(ended, finished_s=self.clock_s())
        summary.write(self.path, summary.summary_text(ended))
        followed = conclude(self.nightly, ended) if has_lock else ()
        folder, name = self.nightly.folder, self.nightly.name
        before = summary.earlier(folder, name, ended.night)
        for line in chain(followed, notify.everyone(ended, self.nightly, before)):
            self._say(line)
        self._say(f"night {ended.night}: {ended.outcome}: {ended.reason}")
        return ended

    def _say(self, line: str) -> None:
        """Log a line, in the night's log as well: the next start replaces what this one printed."""
        self.log(line)
        with suppress(OSError), self.path.with_suffix(".log").open("a") as file:
            file.write(f"nimc: {visible(line)}\n")


def night_of(nightly: Nightly, now_s: float, requested: date | None) -> Night | None:
    """The night to run now: that of the window, or the one `asked` for by date."""
    if requested is None:
        return nightly.window.night_at(now_s)
    first, last = _YEARS
    if not first <= requested.year <= last:
        raise InputError(f"--night: {requested} found; allowed: years from {first} to {last}")
    return nightly.window.night_on(requested).moved_to(now_s)


def outside(nightly: Nightly, now_s: float) -> Summary:
    """What is said when there is no night to run."""
    return replace(
        _begun(nightly, date.fromtimestamp(now_s), now_s),
        finished_s=now_s,
        outcome="not run",
        reason="it is not the time of a scheduled night; --night DATE makes up for one",
    )


def _begun(nightly: Nightly, night: date, now_s: float) -> Summary:
    return Summary(
        nightly=nightly.name,
        night=night,
        machine=nightly.machine,
        campaign=nightly.campaign.stem,
        started_s=now_s,
        finished_s=None,
        outcome="machine failed",
        reason=UNFINISHED,
        budget_node_h=nightly.budget_node_h,
    )


# What follows a night's measurement: the store, alarms on the history, old runs, pages.


#: How long old runs may take to remove, and pages to make, seconds.
_LONGEST_S = 1800.0


def raised(nightly: Nightly, run: Path) -> list[Alarm]:
    """Add the run to the store, and return the alarms that it raised on the machine's history.

    Their states follow from all runs of the store. Raises InputError for a run that the store does
    not take.
    """
    added = add_run(nightly.store, run)
    tables = [load(nightly.store, machine=added.machine) for load in (load_nights, load_runs)]
    found = survey(*tables).alarms
    save(nightly.store, found)
    return [each for each in found if (each.campaign, each.run) == (added.campaign, added.run)]


def seen(nightly: Nightly, campaign: str, left_out: Naming) -> set[tuple[str, str, str]]:
    """Case, arm and quantity of the campaign's open alarms that an operator has acknowledged.

    Raises InputError without a store.
    """
    machine = nightly.machine
    nights, runs = (load(nightly.store, machine=machine) for load in (load_nights, load_runs))
    found = survey(nights, runs)
    found = replace(found, alarms=acknowledged(nightly.store, found.alarms, left_out))
    history = history_of(machine, found, nights, runs, time.time())
    still = open_alarms(shown_alarms(history)).items()
    return {key[1:] for key, alarm in still if key[0] == campaign and alarm.acknowledged}


def conclude(nightly: Nightly, ended: Summary) -> Iterator[str]:
    """Store how the night ended, remove old runs, make the pages; yields what went wrong."""
    if ended.run and ended.finished_s is not None:
        try:
            add_run(nightly.store, Path(ended.run), outcome=ended.outcome)
        except InputError as error:
            yield f"store: {error}"
    if not nightly.store.is_dir():
        return
    where = ["--results", str(nightly.results), "--store", str(nightly.store)]
    age_s, size_b = nightly.retention.age_s, nightly.retention.size_b
    limits = [] if age_s is None else ["--older-than", f"{age_s:f}s"]
    limits += [] if size_b is None else ["--larger-than", f"{size_b}B"]
    if limits:
        yield from _nimc("store", "prune", *where, *limits, "--yes")
    if nightly.pages:
        yield from _nimc("pages", *where, "--output", str(nightly.pages))


def _nimc(*words: str) -> Iterator[str]:
    """Run another command of this project; yields its last line if it fails."""
    answer = ask([*NIMC, *words], environment(), timeout_s=_LONGEST_S, folder=ROOT)
    if not answer.ok:
        yield f"nimc {words[0]}: {answer.last.removeprefix('nimc: ')}"


def alarm_text(alarm: Alarm) -> str:
    """An alarm in one line."""
    loss = f"{(alarm.ratio - 1) * 100:.2g} % worse than the machine's history"
    if alarm.interval:
        low, high = ((end - 1) * 100 for end in alarm.interval)
        loss += f" [{low:.2g}, {high:.2g}]"
    return f"{alarm.case} {alarm.arm}: {alarm.quantity} {loss} since {alarm.since}, {alarm.state}"
