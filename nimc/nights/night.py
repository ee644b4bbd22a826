"""One night of a campaign that a scheduler starts every night (`nimc nights run`).

A night starts `nimc run`, stops it at a time of day, judges its results and sends a summary. It may
be started several times, for example after the host was restarted. Later starts continue the night.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path

import polars as pl

from analysis.history.alarms import Alarm, BelowReference, Survey, survey
from analysis.history.nights import night_of, nights_of, read_results, watched_quantities
from analysis.samples.columns import read_run
from nimc.campaign.request import load_request
from nimc.nights import summary
from nimc.nights.summary import (
    BY_SIGNAL,
    FIGURE_KEYS,
    TIME_ENDED,
    UNFINISHED,
    EndedRun,
    NightAlarm,
    Outcome,
    Summary,
    judge_night,
    prometheus_text,
)
from nimc.run.folder import find_latest, make_run_report, new_header
from nimc.run.runner import Failure
from nimc.run.session import NIMC_COMMAND, end_jobs, start_child, stop_child
from records import yaml_file
from records.campaign import is_name
from records.errors import InputError, MachineError, NimcError
from records.files import private_lock, replace_text
from records.interrupts import Interrupts
from records.programs import ask, last_line
from records.slurm.options import SITE_VARIABLES
from records.text import one_line

#: Interval between checks whether the night has to end, seconds.
_CHECK_INTERVAL_S = 5.0
#: Interval between messages which show that a night is in progress, seconds.
_SIGN_OF_LIFE_INTERVAL_S = 60.0
#: Age of an unfinished run above which the night begins a new run instead of resuming it, seconds.
MAX_RESUMED_AGE_S = 20 * 3600.0
#: How long the site's command that gets the summary may take, seconds.
_TELL_COMMAND_TIMEOUT_S = 60.0
#: Outcomes after which a night is complete. Another start of `nimc nights run` does not continue
#: it.
_DONE_OUTCOMES = ("measured", "slower", "inconclusive")


def night_until(until: str | None, now: datetime) -> tuple[float | None, date]:
    """Return when a night has to end (Unix time), and the date of the night.

    If `until` is None, the night has no end (None), and lasts from noon to noon, as in the history.
    Otherwise it ends when clocks next show the time of day `until`, such as 05:00. Its date is then
    the day before its end. So starts before and after midnight belong to the same night. Raises
    InputError.
    """
    if until is None:
        return None, night_of(now.timestamp())
    try:
        time_of_day = datetime.strptime(until, "%H:%M").time()
    except ValueError:
        raise InputError(f"--until: {until} found; allowed: a time of day, such as 05:00") from None
    end = now.replace(hour=time_of_day.hour, minute=time_of_day.minute, second=0, microsecond=0)
    if end <= now:
        end += timedelta(days=1)
    return end.timestamp(), (end - timedelta(days=1)).date()


@dataclass(frozen=True, kw_only=True)
class NightRun:
    """One night of a campaign on a machine."""

    #: The campaign's file.
    campaign: Path
    #: Name of the machine.
    machine: str
    #: Folder for results.
    results: Path
    #: Function that prints a line of the night's log.
    log: Callable[[str], None]
    #: Unix time at which the night has to end; None: when its run ends.
    end_s: float | None
    #: Date of the night.
    night: date
    #: The site's shell command that gets the summary; empty if there is none.
    tell_command: str = ""
    #: Folder for the metrics that node_exporter reads; None: no metrics are written.
    metrics: Path | None = None

    @property
    def path(self) -> Path:
        """Return the file of the night's summary, and make its folder."""
        return summary.make_path(self.results, self.name, self.machine, self.night)

    @cached_property
    def name(self) -> str:
        """Return the name of the campaign, or of its file if the campaign has no valid name."""
        with suppress(InputError, OSError):
            data = yaml_file.load(self.campaign).data
            if isinstance(data, dict) and is_name(data.get("name")):
                return str(data["name"])
        return self.campaign.stem

    def run(self) -> Summary:
        """Run the night, write its summary, and send it to the site.

        Summaries of earlier nights that could not be sent are sent first. If the night is complete,
        nothing is run. If another process runs the campaign as a night, this night is not run. If
        the night cannot be run, its summary says why and is sent too, and then InputError, another
        NimcError or OSError is raised.
        """
        path = self.path.with_name(f"{self.name}-{self.machine}.lock")
        with ExitStack() as exits:
            with suppress(MachineError):  # if there can be no lock, `nimc run` says why
                lock = exits.enter_context(private_lock(path))
                if not lock.acquire():
                    return self._while_another_runs(lock.holder())
                lock.write_holder(str(os.getpid()))
            return self._run()

    def _while_another_runs(self, other_process: str) -> Summary:
        """Return the summary of this start, while another process runs the campaign as a night.

        It is written and sent only if this night has no summary yet, so nothing measured is lost.
        """
        not_run = replace(
            self._begun_summary(None),
            outcome="not run",
            reason=f"another nimc (process {other_process or 'unknown'}) runs a night of"
            f" {self.name} on {self.machine}",
        )
        if self.path.exists():
            self.log(f"night {self.night}: {not_run.outcome}: {not_run.reason}")
            return not_run
        return self._end(not_run)

    def _run(self) -> Summary:
        self._send_unsent()
        earlier_start = None
        with suppress(InputError, OSError):
            earlier_start = summary.load(self.path)
        if earlier_start:
            self._require_same_campaign(earlier_start)
        if earlier_start and is_done(earlier_start):
            self.log(f"night {self.night} is done: {earlier_start.outcome}; {self.path}")
            return earlier_start
        if earlier_start:
            so_far = f"{earlier_start.outcome}: {earlier_start.reason}"
            self.log(f"night {self.night} goes on; so far: {so_far}")
        begun_summary = self._begun_summary(earlier_start)
        try:
            return self._end(self._measure(begun_summary))
        except (NimcError, OSError) as error:
            outcome: Outcome = "not run" if isinstance(error, InputError) else "machine failed"
            self._end(replace(begun_summary, outcome=outcome, reason=_cause(error)))
            raise

    def _begun_summary(self, earlier_start: Summary | None) -> Summary:
        """Return the summary of a night that begins, or goes on after an earlier start."""
        return Summary(
            night=self.night,
            machine=self.machine,
            campaign=self.name,
            campaign_file=str(self.campaign),
            started_s=earlier_start.started_s if earlier_start else time.time(),
            finished_s=None,
            outcome="machine failed",
            reason=UNFINISHED,
            alarms=earlier_alarms(earlier_start) if earlier_start else [],
        )

    def _require_same_campaign(self, earlier_start: Summary) -> None:
        """Raise InputError if another campaign with the same name was started earlier this night.

        Campaigns with files of equal content, for example in two checkouts, are the same campaign.
        """
        file = Path(earlier_start.campaign_file or self.campaign)
        with suppress(OSError):
            if file.read_bytes() != self.campaign.read_bytes():
                raise InputError(
                    f"{self.campaign}: name: {self.name!r} found; allowed: another name:"
                    f" {self.path} is of {file}"
                )

    def _end(self, judged_summary: Summary) -> Summary:
        ended_summary = replace(judged_summary, finished_s=time.time())
        self.log(f"night {self.night}: {ended_summary.outcome}: {ended_summary.reason}")
        return self._send(ended_summary, self.path)

    def _send(self, ended_summary: Summary, path: Path) -> Summary:
        """Write a summary to `path` and send it to the site.

        Returns the summary. Its field `told` says whether it could be sent. A summary that cannot
        be written, for example because the disk is full, is sent too.
        """
        undelivered = replace(ended_summary, told=False)
        delivered = replace(ended_summary, told=True)
        self._write(undelivered, path)
        if failures := tell(delivered, self.tell_command, self.metrics):
            for failure in failures:
                self.log(failure)
            return undelivered
        self._write(delivered, path)
        return delivered

    def _write(self, ended_summary: Summary, path: Path) -> None:
        """Write a summary to `path`, or print why it cannot be written."""
        try:
            replace_text(path, ended_summary.text)
        except (InputError, OSError) as error:
            self.log(f"summary of night {ended_summary.night} not written: {_cause(error)}")

    def _send_unsent(self) -> None:
        """Send the summaries of earlier nights that could not be sent.

        Stops at the first summary that fails again.
        """
        # Version 0.1.0 named summaries after the campaign's file.
        for path in summary.paths_of(self.results, {self.name, self.campaign.stem}, self.machine):
            with suppress(InputError, OSError):
                earlier = summary.load(path)
                if earlier.finished_s is None or earlier.told or earlier.campaign != self.name:
                    continue
                self.log(f"sends the summary of night {earlier.night} again")
                if not self._send(earlier, path).told:
                    return

    def _measure(self, begun_summary: Summary) -> Summary:
        """Run or resume the campaign. Return the night's summary, with figures and outcome."""
        request = load_request(self.campaign, self.machine)
        digest = new_header(request).digest
        start_s = time.time()  # time of this start; the summary has the time of the first start
        is_resumed = False
        if latest := find_latest(self.results, digest):
            path, header = latest
            if header.finished_s is None:
                is_resumed = start_s - header.started_s <= MAX_RESUMED_AGE_S
                if not is_resumed:
                    hours = f"{MAX_RESUMED_AGE_S / 3600:.0f} hours"
                    self.log(f"does not resume {path}: it began more than {hours} ago")
        replace_text(self.path, begun_summary.text)
        ended_run = self._run_campaign([] if is_resumed else ["--fresh"])
        run = None
        if latest := find_latest(self.results, digest):
            path, header = latest
            if is_resumed or header.started_s >= start_s:
                run = path
                if ended_run.stop_reason and header.finished_s is not None:
                    # The run was stopped after its last sample, so only its report may be missing.
                    ended_run = replace(ended_run, status=0, stop_reason=None)
        if run and request.uses_slurm and ended_run.status < 0:
            end_jobs(run, (), self.log)  # `nimc run` was killed, perhaps before it did this itself
        sample_count = new_sample_count(run, begun_summary.started_s) if run else 0
        if run and sample_count and not ended_run.document.get("report"):
            make_run_report(run)
        return self._judge(begun_summary, ended_run, run, sample_count)

    def _run_campaign(self, options: Sequence[str]) -> EndedRun:
        """Run `nimc run` with these options until it ends or until the night has to end.

        The messages of `nimc run` are appended to a log file beside the summary.
        """
        argv = [*NIMC_COMMAND, "run", str(self.campaign), "--machine", self.machine]
        argv += ["--results", str(self.results), "--json", *options]
        log = self.path.with_suffix(".log")
        with (
            log.open("ab") as messages,
            tempfile.TemporaryFile() as output,
            Interrupts() as interrupts,
        ):
            start_b = messages.tell()
            self.log(f"its messages: {log}")
            child = start_child(
                argv, output, errors=messages, environment=environment(), cwd=Path.cwd()
            )
            stop_reason = self.attend(child, interrupts, lambda: _last_message(log, start_b))
            output.seek(0)
            document = {}
            # ValueError: `nimc run` was killed, or failed before it printed a document.
            with suppress(ValueError):
                document = json.loads(output.read())
        message = _last_message(log, start_b) or "it printed nothing"
        return EndedRun(child.returncode, document, message, stop_reason)

    def attend(
        self,
        child: subprocess.Popen[bytes],
        interrupts: Interrupts,
        last_message: Callable[[], str],
    ) -> str | None:
        """Wait for a child process; stop it when the night has to end, or on a signal.

        Returns why it was stopped; None if it ended by itself. Once a minute, the child's last
        message (`last_message`) is logged to show that the night is in progress.
        """
        next_s = 0.0
        while child.poll() is None:
            interrupts.wait(_CHECK_INTERVAL_S)
            if time.monotonic() >= next_s and (line := last_message()):
                next_s = time.monotonic() + _SIGN_OF_LIFE_INTERVAL_S
                self.log(line)
            has_to_end = self.end_s is not None and time.time() >= self.end_s
            if (has_to_end or interrupts.signum is not None) and child.poll() is None:
                stop_child(child)
                return TIME_ENDED if interrupts.signum is None else BY_SIGNAL
        return None

    def _judge(
        self, begun_summary: Summary, ended_run: EndedRun, run: Path | None, sample_count: int
    ) -> Summary:
        """Return the night's summary, completed with figures, alarms, failures, outcome and reason.

        `run` is the folder of the night's run; None if there is none. `sample_count` is the number
        of samples that this night has added to the run.
        """
        results, left_out = read_results([self.results])
        for line in left_out:
            self.log(f"left out: {line}")
        results = results.filter(machine=self.machine)
        run_results = results.filter(run=run.name) if run else results.clear()
        alarm_survey = survey(nights_of(results), results) if run else Survey([], [], [])
        open_alarms = [
            alarm for alarm in alarm_survey.alarms if alarm.open and alarm.campaign == self.name
        ]
        below_reference = [
            case for case in alarm_survey.below_reference if run and case.run == run.name
        ]
        alarms = alarms_of(below_reference, open_alarms, night_of(begun_summary.started_s))
        judged_summary = replace(
            begun_summary,
            run=str(run) if run else None,
            figures=watched_quantities(run_results).select(FIGURE_KEYS).to_dicts(),
            stopped=ended_run.stop_reason,
            alarms=marked_known(alarms, begun_summary.alarms),
            failures=[Failure(**failure) for failure in ended_run.document.get("failures", [])],
        )
        outcome, reason = judge_night(ended_run, sample_count, judged_summary)
        return replace(judged_summary, outcome=outcome, reason=reason)


def _cause(error: NimcError | OSError) -> str:
    """Return why a night failed, in one line."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error).split("\n")[0]


def environment() -> dict[str, str]:
    """Return the environment variables for `nimc run`.

    The night may itself run in a job of Slurm. The variables that Slurm sets for this job are left
    out, since the jobs that `nimc run` submits must not inherit them. Variables of Slurm that are
    settings of the site are kept.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in SITE_VARIABLES or not name.startswith(("SLURM_", "SLURMD_", "SBATCH_"))
    }


def _last_message(log: Path, start_b: int) -> str:
    """Return the last line that was appended to a log after its first `start_b` bytes.

    Returns an empty text if nothing was appended.
    """
    text = log.read_bytes()[start_b:].decode(errors="replace").strip()
    return last_line(text).removeprefix("nimc: ") if text else ""


def new_sample_count(run: Path, since_s: float) -> int:
    """Return the number of a run's samples that started at `since_s` (Unix time) or later.

    Returns 0 if the run cannot be read.
    """
    with suppress(InputError):
        return read_run(run).frame.filter(pl.col("start_s") >= since_s).height
    return 0


def alarms_of(
    below_reference: Iterable[BelowReference], history_alarms: Iterable[Alarm], night: date
) -> list[NightAlarm]:
    """Return the alarms of a night.

    First come alarms for baselines that are below the references of the site. Then come alarms from
    the comparison with earlier nights (`history_alarms`). If such an alarm was raised before
    `night`, it is marked as known.
    """
    alarms = [
        NightAlarm(
            case=baseline.case,
            arm="off",
            quantity="fom",
            source="reference",
            text=f"{baseline.case}: {baseline.text}",
        )
        for baseline in below_reference
    ]
    for alarm in history_alarms:
        alarms.append(
            NightAlarm(
                case=alarm.case,
                arm=alarm.arm,
                quantity=alarm.quantity,
                source="history",
                text=alarm.text,
                known=alarm.night < night.isoformat(),
            )
        )
    return alarms


def is_done(night_summary: Summary) -> bool:
    """Return whether a night is complete: another start of it leaves its summary unchanged."""
    has_ended = night_summary.finished_s is not None and night_summary.stopped != BY_SIGNAL
    return has_ended and night_summary.outcome in _DONE_OUTCOMES


def earlier_alarms(earlier_start: Summary) -> list[NightAlarm]:
    """Return the alarms in the summary of an earlier start of this night.

    They are marked as known if the summary was sent.
    """
    delivered = earlier_start.told and earlier_start.finished_s is not None
    return [replace(alarm, known=alarm.known or delivered) for alarm in earlier_start.alarms]


def marked_known(
    alarms: Iterable[NightAlarm], alarms_before: Iterable[NightAlarm]
) -> list[NightAlarm]:
    """Return the alarms, and mark those as known whose series has a known alarm in `alarms_before`.

    Alarms of one series have the same source, case, arm and quantity.
    """
    known_series = {_series(alarm) for alarm in alarms_before if alarm.known}
    return [replace(alarm, known=alarm.known or _series(alarm) in known_series) for alarm in alarms]


def _series(alarm: NightAlarm) -> tuple[str, str, str, str]:
    return alarm.source, alarm.case, alarm.arm, alarm.quantity


def tell(night_summary: Summary, command: str, metrics: Path | None) -> list[str]:
    """Write the metrics of a night, and pass its summary to the site's shell command.

    Returns a line for each failure. The command gets the summary on standard input. It starts in
    the current folder, in which the site started `nimc nights run`. An empty `command` is not run.
    """
    failures = []
    if metrics:
        try:
            path = metrics / f"nimc_{night_summary.campaign}_{night_summary.machine}.prom"
            # node_exporter runs as another user, who must be able to read the file.
            replace_text(path, prometheus_text(night_summary), mode=0o644)
        except (InputError, OSError) as error:
            failures.append(f"--metrics: {error}")
    if command:
        shell = ["sh", "-c", command]
        answer = ask(
            shell, timeout_s=_TELL_COMMAND_TIMEOUT_S, stdin=night_summary.text, folder=Path.cwd()
        )
        if not answer.ok:
            failures.append(f"--tell: {command}: {one_line(answer.reason)}")
    return failures
