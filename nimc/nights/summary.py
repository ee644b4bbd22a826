"""The summary of a night: a JSON document, from which metrics, lists and pages are made.

When the night begins, its summary is written with the outcome 'machine failed' and without an end.
When the night ends, the summary is replaced. So a night that was killed has the right outcome.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal, get_args

from analysis.display.document import json_file_text
from analysis.effects.result import Verdict
from nimc.run.runner import Failure
from records.errors import InputError
from records.files import make_named_folder, require_owned
from records.json_limits import read_json, validated
from records.run import PlainName
from records.units import plural

#: Why a night was stopped. Another start continues a night that a signal stopped.
TIME_ENDED = "its time ended"
BY_SIGNAL = "stopped by a signal"
#: Reason in the summary that is written when the night begins.
UNFINISHED = "has not ended: it is running, or was killed; its samples are saved"

Outcome = Literal["measured", "slower", "not run", "inconclusive", "machine failed"]

#: Keys of a night's figures: columns of `analysis.history.nights.watched_quantities`.
FIGURE_KEYS = ("case", "arm", "quantity", "unit", "better", "value", "low", "high", "verdict")


@dataclass(frozen=True, kw_only=True)
class NightAlarm:
    """A quantity that is slower than the site's reference, or than the machine's own history."""

    case: PlainName
    arm: str
    quantity: str
    #: `reference` or `history`.
    source: str
    text: str
    #: True if an earlier night raised it, or if an earlier start of this night sent it.
    known: bool = False


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How one night ended, and what it measured."""

    #: Day on which it began; in JSON an ISO date.
    night: date
    machine: PlainName
    campaign: PlainName
    #: Unix time of its first start.
    started_s: float
    #: Unix time of its end; null if it is running, or was killed.
    finished_s: float | None
    outcome: Outcome
    reason: str
    #: Path of the campaign's file; null in older summaries.
    campaign_file: str | None = None
    #: `its time ended` or `stopped by a signal`; null if it ended by itself, is running, or was
    #: killed.
    stopped: str | None = None
    #: Folder of the run; null if none was begun.
    run: str | None = None
    #: Each quantity of each treatment of a case, with the keys of `FIGURE_KEYS`.
    figures: list[dict[str, Any]] = field(default_factory=list)
    alarms: list[NightAlarm] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    #: True if the site's command got the summary, and its metrics were written. If not, the next
    #: start tries again.
    told: bool = True
    #: Schema 1 had the name of a nightly, and node-hours.
    schema: Literal[2] = 2

    @property
    def text(self) -> str:
        """The text of its file."""
        return json_file_text(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """The summary as in JSON."""
        return {"schema": self.schema} | asdict(self) | {"night": self.night.isoformat()}


def prepare_path(results: Path, campaign: str, machine: str, night: date) -> Path:
    """Make the folder of a night's summary, and return the summary's path.

    Raises InputError for a folder of another user.
    """
    make_named_folder(results)
    folder = results / "nights"
    require_owned(folder, "results")
    folder.mkdir(exist_ok=True)
    return folder / f"{campaign}-{machine}-{night.isoformat()}.json"


def paths_of(results: Path, campaigns: Iterable[str], machine: str) -> list[Path]:
    """Return the files of summaries of campaigns on a machine, sorted by campaign, then date."""
    require_owned(results / "nights", "results")
    paths: list[Path] = []
    for prefix in sorted(glob.escape(f"{campaign}-{machine}") for campaign in campaigns):
        paths += sorted(results.glob(f"nights/{prefix}-????-??-??.json"))
    return paths


def load(path: Path) -> Summary:
    """Read a summary. Raises OSError, and InputError if it is invalid or of another schema."""
    return validated(Summary, read_json(path), path)


def load_all(folders: Iterable[Path]) -> tuple[list[Summary], list[str]]:
    """Read all summaries in results folders, the oldest first.

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
    return sorted(summaries, key=lambda summary: summary.started_s), left_out


# How a night ended: one of five outcomes. Pure.


@dataclass(frozen=True)
class EndedRun:
    """How `nimc run` ended."""

    #: Exit status; negative after a signal.
    status: int
    #: Its JSON document; empty if it printed none.
    document: dict[str, Any] = field(default_factory=dict)
    #: Last line of its messages.
    message: str = ""
    #: Why it was stopped; None if it ended by itself.
    stop_reason: str | None = None


_UNDECIDED_VERDICTS = {verdict.value for verdict in Verdict if verdict.is_undecided}
#: Exit statuses of `nimc run`.
_DONE, _NEGATIVE_RESULT, _INPUT_ERROR, _FAILURE = 0, 1, 2, 3


def judge_night(ended_run: EndedRun, sample_count: int, summary: Summary) -> tuple[Outcome, str]:
    """Return outcome and reason of a night with the figures, alarms and failures of its summary.

    `sample_count` is the number of samples that the night has added. Failures come first, unless
    the night was stopped, then alarms, then undecided cases. So an undecided case never hides a
    loss.
    """
    stop_reason, status, message = ended_run.stop_reason, ended_run.status, ended_run.message
    alarms, failures = summary.alarms, summary.failures
    if stop_reason and not sample_count:
        return "not run", f"{stop_reason} before the first run: no node was free, or none worked"
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
        return "measured", "the night before had taken all samples"
    return "measured", plural(sample_count, "sample")


def _and_more(first_reason: str, more: int) -> str:
    return f"{first_reason} (and {more} more)" if more else first_reason


#: Keys of a figure that become labels of its metrics.
_FIGURE_LABELS = ("case", "arm", "quantity", "unit")


def prometheus_text(summary: Summary) -> str:
    """Return the text of a file for node_exporter's textfile collector."""
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
