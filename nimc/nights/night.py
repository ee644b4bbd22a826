"""One night: `nimc run` as a child until a time of day, its outcome, and what follows it."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from pathlib import Path

import polars as pl

from analysis.history.alarms import Alarm, survey
from analysis.history.nights import night_of, nights_of, quantities, read_results
from analysis.report.page import make_reports
from analysis.samples.columns import read_run
from nimc.campaign.prepare import prepare
from nimc.nights import summary
from nimc.nights.summary import (
    UNFINISHED,
    EndedRun,
    NightAlarm,
    NightFigure,
    Summary,
    judge_night,
    prometheus_text,
)
from nimc.run.folder import find_latest, new_header
from nimc.run.runner import Failure
from nimc.run.session import NIMC, start, stop
from records.checkout import ROOT, python_path
from records.errors import InputError, MachineError, NimcError
from records.interrupts import Interrupts
from records.programs import ask, last_line
from records.text import one_line, visible

#: How often the end of the night is looked for, seconds.
_LOOK_S = 5.0
#: An unfinished run that is older is not resumed: the night begins a new one.
FRESH_AFTER_S = 20 * 3600.0
#: How long the site's command may take, seconds.
_TELL_S = 60.0
#: Outcomes after which a night is not tried again.
_DONE = ("measured", "slower", "inconclusive")
#: Variables of a Slurm job, and one of them that the site sets.
_OF_JOB = ("SLURM_", "SLURMD_", "SBATCH_")
_OF_SITE = ("SLURM_CONF",)


def end_of_night(until: str | None, now: datetime) -> datetime | None:
    """The next moment at which clocks show the time of day `until`. Raises InputError."""
    if until is None:
        return None
    try:
        wanted = datetime.strptime(until, "%H:%M").time()
    except ValueError:
        raise InputError(f"--until: {until} found; allowed: a time of day, such as 05:00") from None
    today = now.replace(hour=wanted.hour, minute=wanted.minute, second=0, microsecond=0)
    return today if today > now else today + timedelta(days=1)


def date_of(end: datetime | None, now: datetime) -> date:
    """The night's date: a start after midnight belongs to the night that ends at the same time."""
    return now.date() if end is None else (end - timedelta(days=1)).date()


@dataclass(frozen=True)
class NightRun:
    """One night of a campaign on a machine."""

    campaign: Path
    machine: str
    results: Path
    log: Callable[[str], None]
    #: When it has to stop, Unix time.
    end_s: float | None
    night: date
    verbose: bool = False
    clock_s: Callable[[], float] = time.time

    @property
    def path(self) -> Path:
        """File of its summary."""
        return summary.path_of(self.results, self.campaign.stem, self.machine, self.night)

    def run(self) -> Summary:
        """Run the night, or report why not; write its summary.

        Raises InputError for a campaign that cannot be run, once the summary says so.
        """
        with suppress(InputError):  # what an earlier attempt of the same night has left
            before = summary.load(self.path)
            if before.finished_s is not None and before.outcome in _DONE:
                self.log(f"night {self.night} is done: {before.outcome}; {self.path}")
                return before
        begun = self._begun()
        try:
            return self._end(self._measured(begun))
        except NimcError as error:
            self._end(self.failed(error))
            raise

    def _begun(self) -> Summary:
        """Its summary as long as it has not ended."""
        name, now_s = self.campaign.stem, self.clock_s()
        return Summary(self.night, self.machine, name, now_s, None, "machine failed", UNFINISHED)

    def failed(self, error: NimcError) -> Summary:
        """How the night ended with an error."""
        begun = self._begun()
        of = replace(begun, reason=str(error).split("\n")[0], finished_s=begun.started_s)
        return replace(of, outcome="not run") if isinstance(error, InputError) else of

    def _end(self, ended: Summary) -> Summary:
        ended = replace(ended, finished_s=self.clock_s())
        summary.write(self.path, ended.text)
        self._say(f"night {ended.night}: {ended.outcome}: {ended.reason}")
        return ended

    def _measured(self, begun: Summary) -> Summary:
        request = prepare(self.campaign, self.machine)
        begun = replace(begun, campaign=request.campaign.name)
        digest = new_header(request).digest
        latest = find_latest(self.results, digest)
        resumed = latest is not None and (
            latest[1].finished_s is None and begun.started_s - latest[1].started_s <= FRESH_AFTER_S
        )
        summary.write(self.path, begun.text)
        ended = self._campaign([] if resumed else ["--fresh"])
        latest = find_latest(self.results, digest)
        run = Path(ended.document["run"]) if "run" in ended.document else None
        if run is None and latest and new_samples(latest[0], begun.started_s):
            run = latest[0]
        samples = new_samples(run, begun.started_s) if run else 0
        if run and samples and not ended.document.get("report"):
            make_reports([run], force=True)  # it was stopped before it made one
        return self._judged(begun, ended, run, samples)

    def _campaign(self, options: Sequence[str]) -> EndedRun:
        """Run or resume the campaign until the night has no time left.

        Messages are appended to the night's log.
        """
        argv = [*NIMC, "run", str(self.campaign), "--machine", self.machine]
        argv += ["--results", str(self.results), "--json", *options]
        argv += ["--verbose"] if self.verbose else []
        try:
            said = self.path.with_suffix(".log").open("ab")
        except OSError as error:
            raise MachineError(f"{error.filename}: {error.strerror}") from error
        with said, tempfile.TemporaryFile() as output, Interrupts() as interrupts:
            began = said.tell()
            child = start(argv, output, errors=said, environment=environment(), cwd=Path.cwd())
            stopped = self._attend(child, interrupts)
            output.seek(0)
            printed = Path(said.name).read_bytes()[began:].decode(errors="replace")
            ended = EndedRun(
                child.returncode, {}, last_line(printed).removeprefix("nimc: "), stopped
            )
            with suppress(ValueError):  # it was killed, or failed before it printed a document
                return replace(ended, document=json.loads(output.read()))
            return ended

    def _attend(self, child: subprocess.Popen[bytes], interrupts: Interrupts) -> str | None:
        """Wait for the child, or stop it; returns why it was stopped."""
        while child.poll() is None:
            interrupts.wait(_LOOK_S)
            why = "stopped by a signal" if interrupts.signum is not None else ""
            if self.end_s is not None and self.clock_s() >= self.end_s:
                why = why or "its time ended"
            if why and child.poll() is None:
                stop([child])
                return why
        return None

    def _judged(self, begun: Summary, ended: EndedRun, run: Path | None, samples: int) -> Summary:
        results, left_out = read_results([self.results], self.machine)
        for line in left_out:
            self._say(f"left out: {line}")
        rows = results.filter(run=run.name) if run else results.clear()
        names = [figure.name for figure in fields(NightFigure)]
        watched = quantities(rows).select(names).iter_rows(named=True)
        figures = [NightFigure(**row) for row in watched]
        alarms = below_references(rows)
        for alarm in survey(nights_of(results), results).alarms if run else ():
            if alarm.open and alarm.campaign == begun.campaign:
                alarms.append(night_alarm(alarm, night_of(begun.started_s)))
        failures = [Failure(**failure) for failure in ended.document.get("failures", [])]
        outcome, reason = judge_night(ended, samples, figures, alarms, failures)
        ended_so = replace(begun, outcome=outcome, reason=reason, run=str(run) if run else None)
        return replace(ended_so, figures=figures, alarms=alarms, failures=failures)

    def _say(self, line: str) -> None:
        """Log a line, in the night's log as well."""
        self.log(line)
        with suppress(OSError), self.path.with_suffix(".log").open("a") as file:
            file.write(f"nimc: {visible(line)}\n")


def environment() -> dict[str, str]:
    """The environment in which `NIMC` finds this checkout.

    The night may be a Slurm job itself; the jobs that it submits do not inherit its variables.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _OF_SITE or not name.startswith(_OF_JOB)
    }
    return {**inherited, "PYTHONPATH": python_path(ROOT)}


def new_samples(run: Path, since_s: float) -> int:
    """Samples of a run that have started since a moment; none of one that cannot be read."""
    with suppress(InputError):
        return read_run(run).frame.filter(pl.col("start_s") >= since_s).height
    return 0


def below_references(rows: pl.DataFrame) -> list[NightAlarm]:
    """Baselines of a run that fall short of the site's references, each case once."""
    slower = rows.filter(pl.col("slower_than_reference")).unique("case", maintain_order=True)
    return [
        NightAlarm(case, "off", "fom", "reference", f"{case}: {notes[0]}")
        for case, notes in slower.select("case", "notes").iter_rows()
    ]


def night_alarm(alarm: Alarm, night: date) -> NightAlarm:
    """An alarm of the history in the summary of a night."""
    known = alarm.night < night.isoformat()
    return NightAlarm(alarm.case, alarm.arm, alarm.quantity, "history", alarm.text, known=known)


def tell(ended: Summary, command: Sequence[str], metrics: Path | None) -> list[str]:
    """Give the summary to the site's command, and write the metrics; returns what failed."""
    failed = []
    if metrics:
        try:
            path = metrics / f"nimc_{ended.campaign}_{ended.machine}.prom"
            summary.write(path, prometheus_text(ended), mode=0o644)
        except NimcError as error:
            failed.append(f"--metrics: {error}")
    if command:
        answer = ask(command, timeout_s=_TELL_S, stdin=ended.text)
        if not answer.ok:
            failed.append(f"--tell: {command[0]}: {one_line(answer.reason)}")
    return failed
