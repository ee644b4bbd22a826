"""The summary of a night: a JSON document, from which metrics, lists and pages are made.

A night is one run of a campaign that is repeated every night. When the night begins, its summary is
written with the outcome 'machine failed' and without a time of its end. When the night ends, this
summary is replaced. So the summary of a night that was killed has the right outcome.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal, get_args

from analysis.display.document import json_file_text
from analysis.effects.result import Verdict
from nimc.run.runner import Failure
from records.errors import InputError
from records.files import make_named_folder, make_own_folder, require_owned
from records.json_limits import read_json, validated
from records.run import PlainName
from records.units import plural

#: Why a night was stopped: the time of day at which it had to end had come.
TIME_ENDED = "its time ended"
#: Why a night was stopped: it got a signal. Another start continues this night.
BY_SIGNAL = "stopped by a signal"
#: Reason in the summary that is written when the night begins.
UNFINISHED = "has not ended: it is running, or was killed; its samples are saved"

#: How a night ended.
Outcome = Literal["measured", "slower", "not run", "inconclusive", "machine failed"]

#: Keys of a figure in a summary. They are columns of `analysis.history.nights.watched_quantities`.
FIGURE_KEYS = ("case", "arm", "quantity", "unit", "better", "value", "low", "high", "verdict")


@dataclass(frozen=True, kw_only=True)
class NightAlarm:
    """An alarm: a quantity is worse than the site's reference or than in earlier nights."""

    case: PlainName
    #: The treatment.
    arm: str
    quantity: str
    #: With what the quantity was compared: `reference` or `history`.
    source: str
    #: The alarm in words.
    text: str
    #: Whether an earlier night raised the alarm (`history` only), or an earlier start of this night
    #: sent it.
    known: bool = False


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The summary of a night: how it ended and what it measured."""

    #: Date of the night; in JSON an ISO date.
    night: date
    machine: PlainName
    campaign: PlainName
    #: Unix time of the night's first start.
    started_s: float
    #: Unix time of the night's end; null if the night is running or was killed.
    finished_s: float | None
    outcome: Outcome
    #: Reason of the outcome, in one line.
    reason: str
    #: Path of the campaign's file; null in older summaries.
    campaign_file: str | None = None
    #: Why the night was stopped, `its time ended` or `stopped by a signal`; null if the night ended
    #: by itself, is running or was killed.
    stopped: str | None = None
    #: Folder of the night's run; null if the night has no run.
    run: str | None = None
    #: The watched quantities of each treatment of each case, with the keys of `FIGURE_KEYS`.
    figures: list[dict[str, Any]] = field(default_factory=list)
    alarms: list[NightAlarm] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    #: Whether the site's command got the summary and the metrics were written. If not, the next
    #: start tries this again. It has no meaning while `finished_s` is null.
    told: bool = True
    #: Version of this format. Version 1 had more keys.
    schema: Literal[2] = 2

    @property
    def text(self) -> str:
        """Return the content of the summary's file."""
        return json_file_text(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the summary in the form in which it is written as JSON."""
        return {"schema": self.schema} | asdict(self) | {"night": self.night.isoformat()}


def make_path(results: Path, campaign: str, machine: str, night: date) -> Path:
    """Make the folder of a night's summary, and return the path of the summary.

    Raises InputError if the folder belongs to another user.
    """
    make_named_folder(results)
    folder = results / "nights"
    require_owned(folder, "results")
    with suppress(FileExistsError):
        make_own_folder(folder)
    return folder / f"{campaign}-{machine}-{night.isoformat()}.json"


def paths_of(results: Path, campaigns: Iterable[str], machine: str) -> list[Path]:
    """Return the files of the summaries of these campaigns on a machine, sorted by name.

    Since names may have hyphens, a file may also be of another campaign on another machine.
    """
    require_owned(results / "nights", "results")
    paths: list[Path] = []
    for prefix in sorted(glob.escape(f"{campaign}-{machine}") for campaign in campaigns):
        paths += sorted(results.glob(f"nights/{prefix}-????-??-??.json"))
    return paths


def load(path: Path) -> Summary:
    """Return the summary in a file.

    Raises OSError, and InputError if the summary is invalid or has another version of the format.
    """
    return validated(Summary, read_json(path), path)


def load_all(folders: Iterable[Path]) -> tuple[list[Summary], list[str]]:
    """Return all summaries in folders of results, the oldest first.

    Also returns a line for each summary that cannot be read.
    """
    summaries, left_out = [], []
    for results in folders:
        require_owned(results / "nights", "results")
        for path in sorted(results.glob("nights/*-????-??-??.json")):
            try:
                summaries.append(load(path))
            except InputError as error:
                left_out.append(str(error))
            except OSError as error:
                left_out.append(f"{path}: {error.strerror}")
    return sorted(summaries, key=lambda summary: summary.started_s), left_out


# Finds which of five outcomes a night has. These functions read no files.


@dataclass(frozen=True)
class EndedRun:
    """How `nimc run` ended."""

    #: Exit status; negative if a signal killed it.
    status: int
    #: The JSON document that it printed; empty if it printed none.
    document: dict[str, Any] = field(default_factory=dict)
    #: The last line of its messages.
    message: str = ""
    #: Why the night stopped it; None if it ended by itself.
    stop_reason: str | None = None


_UNDECIDED_VERDICTS = {verdict.value for verdict in Verdict if verdict.is_undecided}
#: Exit statuses of `nimc run`.
_DONE, _NEGATIVE_RESULT, _INPUT_ERROR, _FAILURE = 0, 1, 2, 3


def judge_night(ended_run: EndedRun, sample_count: int, summary: Summary) -> tuple[Outcome, str]:
    """Return the outcome of a night and the reason.

    They follow from how `nimc run` ended, from the number of samples that the night has added, and
    from the figures, alarms and failures in the summary. A night that was stopped before it added a
    sample was not run. Failures and a failed run decide next, unless the night was stopped. Then
    alarms decide, then undecided cases. So an alarm is reported even if a case is undecided.
    """
    stop_reason, status, message = ended_run.stop_reason, ended_run.status, ended_run.message
    alarms, failures = summary.alarms, summary.failures
    if stop_reason and not sample_count:
        return "not run", f"{stop_reason} before the first sample"
    if failures and not stop_reason:
        return "machine failed", _and_more(str(failures[0]), len(failures) - 1)
    if status == _INPUT_ERROR and not sample_count:
        return "not run", message
    if status in (_INPUT_ERROR, _FAILURE) and not stop_reason:
        return "machine failed", message
    if status not in (_DONE, _NEGATIVE_RESULT) and not stop_reason:
        ending = f"was killed by signal {-status}" if status < 0 else "ended"
        return "machine failed", f"the run {ending} (status {status}): {message}"
    if alarms:
        return "slower", _and_more(alarms[0].text, len(alarms) - 1)
    if stop_reason:
        return "inconclusive", f"{stop_reason} before all cases were measured"
    undecided_cases = [
        figure["case"] for figure in summary.figures if figure["verdict"] in _UNDECIDED_VERDICTS
    ]
    if undecided_cases:
        return "inconclusive", f"undecided: {', '.join(dict.fromkeys(undecided_cases))}"
    if not sample_count:
        return "measured", "no new samples: the run had all of them before the night began"
    return "measured", plural(sample_count, "sample")


def _and_more(first_reason: str, more: int) -> str:
    return f"{first_reason} (and {more} more)" if more else first_reason


#: Keys of a figure in the summary that become labels of its metrics.
_FIGURE_LABELS = ("case", "arm", "quantity", "unit")


def prometheus_text(summary: Summary) -> str:
    """Return the metrics of a night as text for node_exporter's textfile collector."""
    night_labels = {"machine": summary.machine, "campaign": summary.campaign}
    metrics: dict[str, list[tuple[Mapping[str, str], float | None]]] = {
        "night_outcome": [
            (night_labels | {"outcome": name}, name == summary.outcome)
            for name in get_args(Outcome)
        ],
        "night_started_timestamp_seconds": [(night_labels, summary.started_s)],
        "night_finished_timestamp_seconds": [(night_labels, summary.finished_s)],
        "night_alarms": [(night_labels, len(summary.alarms))],
    }
    labelled_figures = [
        (night_labels | {name: figure[name] for name in _FIGURE_LABELS}, figure)
        for figure in summary.figures
    ]
    for key in ("value", "low", "high"):
        metrics[f"night_{key}"] = [(labels, figure[key]) for labels, figure in labelled_figures]
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    lines = []
    for metric, labelled_values in metrics.items():
        known_values = [(labels, value) for labels, value in labelled_values if value is not None]
        if known_values:
            lines.append(f"# TYPE nimc_{metric} gauge")
        for labels, value in known_values:
            label_texts = [f'{name}="{label.translate(escapes)}"' for name, label in labels.items()]
            lines.append(f"nimc_{metric}{{{','.join(label_texts)}}} {float(value)!r}")
    return "\n".join([*lines, ""])
