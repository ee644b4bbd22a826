"""One night: `nimc run` as a child until a time of day, its outcome, and what follows it."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path

import polars as pl

from analysis.history.alarms import Alarm, BelowReference, Survey, survey
from analysis.history.nights import night_of, nights_of, read_results, watched_quantities
from analysis.report.page import make_reports
from analysis.samples.columns import read_run
from nimc.campaign.prepare import prepare
from nimc.nights import summary
from nimc.nights.summary import (
    BY_SIGNAL,
    FIGURE,
    TIME_ENDED,
    UNFINISHED,
    EndedRun,
    NightAlarm,
    Summary,
    judge_night,
    prometheus_text,
)
from nimc.run.folder import find_latest, new_header
from nimc.run.runner import Failure
from nimc.run.session import NIMC, start, stop
from records import marked_yaml
from records.campaign import is_name
from records.errors import InputError, NimcError
from records.files import replace_text
from records.interrupts import Interrupts
from records.programs import ask, last_line
from records.text import one_line

#: How often the end of the night is looked for, seconds.
_LOOK_S = 5.0
#: How often a night says how far it is, seconds.
_REPEAT_S = 60.0
#: An unfinished run that is older is not resumed: the night begins a new one.
FRESH_AFTER_S = 20 * 3600.0
#: How long the site's command may take, seconds.
_TELL_S = 60.0
#: Outcomes after which a night is not tried again.
_DONE = ("measured", "slower", "inconclusive")


def night_until(until: str | None, now: datetime) -> tuple[float | None, date]:
    """Until when a night may run, Unix time, and its date.

    That is the next moment at which clocks show the time of day `until`. A start after midnight
    belongs to the night that ends at the same time. Raises InputError.
    """
    if until is None:
        return None, now.date()
    try:
        wanted = datetime.strptime(until, "%H:%M").time()
    except ValueError:
        raise InputError(f"--until: {until} found; allowed: a time of day, such as 05:00") from None
    end = now.replace(hour=wanted.hour, minute=wanted.minute, second=0, microsecond=0)
    if end <= now:
        end += timedelta(days=1)
    return end.timestamp(), (end - timedelta(days=1)).date()


@dataclass(frozen=True, kw_only=True)
class NightRun:
    """One night of a campaign on a machine."""

    campaign: Path
    machine: str
    results: Path
    log: Callable[[str], None]
    #: When it has to stop, Unix time.
    end_s: float | None
    night: date
    #: The site's command line, which gets the summary, and the folder of its metrics.
    tell: str = ""
    metrics: Path | None = None

    @property
    def path(self) -> Path:
        """File of its summary."""
        return summary.path_of(self.results, self.name, self.machine, self.night)

    @cached_property
    def name(self) -> str:
        """Name of the campaign; of its file, if the file has no valid one."""
        with suppress(InputError, OSError):
            data = marked_yaml.load(self.campaign).data
            if isinstance(data, dict) and is_name(data.get("name")):
                return str(data["name"])
        return self.campaign.stem

    def run(self) -> Summary:
        """Run the night, or report why not; write its summary and send its message.

        Raises InputError for a campaign that cannot be run, once the summary says so. Messages of
        earlier nights that failed are sent first.
        """
        self._tell_again()
        before = None
        with suppress(InputError, OSError):  # what an earlier start of the night has left
            before = summary.load(self.path)
        if before and is_done(before):
            self.log(f"night {self.night} is done: {before.outcome}; {self.path}")
            return before
        if before:
            self.log(f"night {self.night} goes on; so far: {before.outcome}: {before.reason}")
        begun = Summary(
            night=self.night,
            machine=self.machine,
            campaign=self.name,
            started_s=before.started_s if before else time.time(),
            finished_s=None,
            outcome="machine failed",
            reason=UNFINISHED,
            alarms=earlier_alarms(before) if before else [],
        )
        try:
            return self._end(self._measured(begun))
        except NimcError as error:
            failed = replace(begun, reason=str(error).split("\n")[0])
            not_run = isinstance(error, InputError)
            self._end(replace(failed, outcome="not run") if not_run else failed)
            raise

    def _end(self, ended: Summary) -> Summary:
        ended = replace(ended, finished_s=time.time())
        self.log(f"night {ended.night}: {ended.outcome}: {ended.reason}")
        return self._tell(ended, self.path)

    def _tell(self, ended: Summary, path: Path) -> Summary:
        """Write a summary, and tell it; it says whether that succeeded."""
        undelivered, delivered = replace(ended, told=False), replace(ended, told=True)
        replace_text(path, undelivered.text)
        if failed := tell(delivered, self.tell, self.metrics):
            for line in failed:
                self.log(line)
            return undelivered
        replace_text(path, delivered.text)
        return delivered

    def _tell_again(self) -> None:
        """Send the messages of earlier nights that failed, until one fails again."""
        # Until 0.2.0 the name of the campaign's file named its summaries.
        for path in summary.paths_of(self.results, {self.name, self.campaign.stem}, self.machine):
            with suppress(InputError, OSError):
                before = summary.load(path)
                if before.finished_s is None or before.told or before.campaign != self.name:
                    continue
                self.log(f"sends the message of night {before.night} again")
                if not self._tell(before, path).told:
                    return

    def _measured(self, begun: Summary) -> Summary:
        request = prepare(self.campaign, self.machine)
        digest = new_header(request).digest
        latest = find_latest(self.results, digest)
        start_s = time.time()  # later than that of the night if it goes on
        resumed = latest is not None and (
            latest[1].finished_s is None and start_s - latest[1].started_s <= FRESH_AFTER_S
        )
        if latest and latest[1].finished_s is None and not resumed:
            hours = f"{FRESH_AFTER_S / 3600:.0f} hours"
            self.log(f"does not resume {latest[0]}: it began more than {hours} ago")
        replace_text(self.path, begun.text)
        ended = self._campaign([] if resumed else ["--fresh"])
        latest = find_latest(self.results, digest)
        run = None
        if latest and (resumed or latest[1].started_s >= start_s):
            run = latest[0]
            if ended.stopped and latest[1].finished_s is not None:
                ended = replace(ended, status=0, stopped=None)  # at most its report is missing
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
        log = self.path.with_suffix(".log")
        with (
            log.open("ab") as messages,
            tempfile.TemporaryFile() as output,
            Interrupts() as interrupts,
        ):
            began = messages.tell()
            self.log(f"its messages: {log}")
            child = start(argv, output, errors=messages, environment=environment(), cwd=Path.cwd())
            stopped = self.attend(child, interrupts, lambda: _last_message(log, began))
            output.seek(0)
            document = {}
            with suppress(ValueError):  # it was killed, or failed before it printed a document
                document = json.loads(output.read())
        message = _last_message(log, began) or "it printed nothing"
        return EndedRun(child.returncode, document, message, stopped)

    def attend(
        self, child: subprocess.Popen[bytes], interrupts: Interrupts, message: Callable[[], str]
    ) -> str | None:
        """Wait for the child, or stop it; returns why it was stopped.

        Its last `message` is repeated once a minute, as a sign of life.
        """
        next_s = 0.0
        while child.poll() is None:
            interrupts.wait(_LOOK_S)
            if time.monotonic() >= next_s and (line := message()):
                next_s = time.monotonic() + _REPEAT_S
                self.log(line)
            late = self.end_s is not None and time.time() >= self.end_s
            if (late or interrupts.signum is not None) and child.poll() is None:
                stop(child)
                return TIME_ENDED if interrupts.signum is None else BY_SIGNAL
        return None

    def _judged(self, begun: Summary, ended: EndedRun, run: Path | None, samples: int) -> Summary:
        results, left_out = read_results([self.results])
        for line in left_out:
            self.log(f"left out: {line}")
        results = results.filter(machine=self.machine)
        rows = results.filter(run=run.name) if run else results.clear()
        surveyed = survey(nights_of(results), results) if run else Survey([], [], [])
        open_now = [
            alarm for alarm in surveyed.alarms if alarm.open and alarm.campaign == begun.campaign
        ]
        below = [case for case in surveyed.below_reference if run and case.run == run.name]
        judged = replace(
            begun,
            run=str(run) if run else None,
            figures=watched_quantities(rows).select(FIGURE).to_dicts(),
            stopped=ended.stopped,
            alarms=marked_known(
                alarms_of(below, open_now, night_of(begun.started_s)), begun.alarms
            ),
            failures=[Failure(**failure) for failure in ended.document.get("failures", [])],
        )
        outcome, reason = judge_night(ended, samples, judged)
        return replace(judged, outcome=outcome, reason=reason)


def environment() -> dict[str, str]:
    """The environment of the campaign's run.

    The night may be a Slurm job itself; the jobs that it submits do not inherit its variables, but
    for the one that a site sets.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SLURMD_", "SBATCH_"))
    }


def _last_message(log: Path, began: int) -> str:
    """Return the last line of a log from a byte of it on; empty if there is none."""
    text = log.read_bytes()[began:].decode(errors="replace").strip()
    return last_line(text).removeprefix("nimc: ") if text else ""


def new_samples(run: Path, since_s: float) -> int:
    """Samples of a run that have started since a moment; none of one that cannot be read."""
    with suppress(InputError):
        return read_run(run).frame.filter(pl.col("start_s") >= since_s).height
    return 0


def alarms_of(
    below: Iterable[BelowReference], history: Iterable[Alarm], night: date
) -> list[NightAlarm]:
    """Baselines of the night below the site's references, then the history's alarms."""
    alarms = [
        NightAlarm(
            case=baseline.case,
            arm="off",
            quantity="fom",
            source="reference",
            text=f"{baseline.case}: {baseline.text}",
        )
        for baseline in below
    ]
    for alarm in history:
        earlier = alarm.night < night.isoformat()
        _, case, arm, quantity = alarm.key
        alarms.append(
            NightAlarm(
                case=case,
                arm=arm,
                quantity=quantity,
                source="history",
                text=alarm.text,
                known=earlier,
            )
        )
    return alarms


def is_done(night: Summary) -> bool:
    """Return whether another start of the same night leaves its summary unchanged."""
    ended = night.finished_s is not None and night.stopped != BY_SIGNAL
    return ended and night.outcome in _DONE


def earlier_alarms(before: Summary) -> list[NightAlarm]:
    """Alarms of an earlier start of the same night, marked as known if it has reported them."""
    delivered = before.told and before.finished_s is not None
    return [replace(alarm, known=alarm.known or delivered) for alarm in before.alarms]


def marked_known(alarms: Iterable[NightAlarm], earlier: Iterable[NightAlarm]) -> list[NightAlarm]:
    """The alarms of a night, marked as known if an earlier start of it has reported them."""
    known = {_series(alarm) for alarm in earlier if alarm.known}
    return [replace(alarm, known=alarm.known or _series(alarm) in known) for alarm in alarms]


def _series(alarm: NightAlarm) -> tuple[str, str, str, str]:
    return alarm.source, alarm.case, alarm.arm, alarm.quantity


def tell(ended: Summary, command: str, metrics: Path | None) -> list[str]:
    """Give the summary to the site's command line, and write the metrics; returns what failed.

    The site has typed the line, so that it starts in its folder.
    """
    failed = []
    if metrics:
        try:
            path = metrics / f"nimc_{ended.campaign}_{ended.machine}.prom"
            replace_text(path, prometheus_text(ended), mode=0o644)  # node_exporter is another user
        except (InputError, OSError) as error:
            failed.append(f"--metrics: {error}")
    if command:
        shell = ["sh", "-c", command]
        answer = ask(shell, timeout_s=_TELL_S, stdin=ended.text, folder=Path.cwd())
        if not answer.ok:
            failed.append(f"--tell: {command}: {one_line(answer.reason)}")
    return failed
