"""The summary of a night: one JSON document, from which all else about the night is made.

It is first written when the night begins, as 'machine failed' and unfinished, and replaced when it
ends. So a night that was killed has the right outcome, whoever looks.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from analysis.display.document import json_file
from analysis.effects.result import Verdict
from nimc.run.runner import Failure
from records.errors import InputError
from records.files import make_named_folder, require_owned
from records.json_limits import read_json, validated
from records.run import PlainName

#: Why a night was stopped: only one that a signal stopped can be resumed.
TIME_ENDED = "its time ended"
BY_SIGNAL = "stopped by a signal"
#: Reason of a night that has begun; if it is not running, that is how it ended.
UNFINISHED = "has not ended: it is running, or was killed; its samples are saved"

Outcome = Literal["measured", "slower", "not run", "inconclusive", "machine failed"]


#: Columns of `analysis.history.nights.nights_of` that a night's figures have.
FIGURE = ("case", "arm", "quantity", "unit", "better", "value", "low", "high", "verdict")


@dataclass(frozen=True, kw_only=True)
class NightAlarm:
    """Something slower: than the site's reference, or than the machine's own history."""

    case: PlainName
    arm: str
    quantity: str
    #: `reference` or `history`.
    source: str
    text: str
    #: True if an earlier night, or this one before it was resumed, has raised and told it.
    known: bool = False


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The end of one night."""

    #: Day on which it began (ISO date); up to the time at which it has to end, it is one night.
    night: date
    machine: PlainName
    campaign: PlainName
    #: Unix time of its first start.
    started_s: float
    #: Unix time; null if it is running, or was killed.
    finished_s: float | None
    outcome: Outcome
    reason: str
    #: `its time ended` or `stopped by a signal`; null if it ended by itself, is running, or was
    #: killed.
    stopped: str | None = None
    #: Folder of the run; null if none was begun.
    run: str | None = None
    #: Each quantity of each treatment of a case (`FIGURE`).
    figures: list[dict[str, Any]] = field(default_factory=list)
    alarms: list[NightAlarm] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    #: True if the site's command and metrics have it; if not, the next start tries again.
    told: bool = True
    #: 1 had the name of a nightly, and node-hours.
    schema: Literal[2] = 2

    @property
    def text(self) -> str:
        """The document."""
        return json_file(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """The summary as in JSON."""
        return {"schema": self.schema} | asdict(self) | {"night": self.night.isoformat()}


def path_of(results: Path, campaign: str, machine: str, night: date) -> Path:
    """File of a night's summary; the folder is made. Raises InputError for one of another user."""
    make_named_folder(results)
    folder = results / "nights"
    require_owned(folder, "results")
    folder.mkdir(exist_ok=True)
    return folder / f"{campaign}-{machine}-{night.isoformat()}.json"


def paths_of(results: Path, campaigns: Iterable[str], machine: str) -> list[Path]:
    """Files of the summaries of nights on a machine, by the names of campaigns and their dates."""
    require_owned(results / "nights", "results")
    begins = sorted(glob.escape(f"{campaign}-{machine}") for campaign in campaigns)
    files = (sorted(results.glob(f"nights/{begin}-????-??-??.json")) for begin in begins)
    return list(chain.from_iterable(files))


def load(path: Path) -> Summary:
    """Read a summary. Raises InputError if it is invalid or of another schema, and OSError."""
    return validated(Summary, read_json(path), path)


def load_all(folders: Iterable[Path]) -> tuple[list[Summary], list[str]]:
    """All summaries of results folders by start, and a line for each that cannot be read."""
    summaries, left_out = [], []
    for results in folders:
        require_owned(results / "nights", "results")
        for path in sorted(results.glob("nights/*-????-??-??.json")):
            try:
                summaries.append(load(path))
            except InputError as error:
                left_out.append(str(error))
    return sorted(summaries, key=lambda summary: summary.started_s), left_out


# How a night ended, in one of five ways. Pure.


@dataclass(frozen=True)
class EndedRun:
    """The end of a `nimc run`."""

    status: int
    #: Its JSON document; empty if it printed none.
    document: dict[str, Any] = field(default_factory=dict)
    #: Its last line.
    message: str = ""
    #: Why it was stopped; None if it ended by itself.
    stopped: str | None = None


_OPEN = {verdict.value for verdict in Verdict if verdict.is_open}
_INPUT, _FAILED = 2, 3


def judge_night(ended: EndedRun, samples: int, summary: Summary) -> tuple[Outcome, str]:
    """Outcome and reason of a night with these figures, alarms and failures.

    `samples`: those that it has added.

    What failed comes first, then what is slower: a loss is never hidden by an open case.
    """
    stopped = ended.stopped
    status = ended.status
    message = ended.message
    alarms, failures = summary.alarms, summary.failures
    if stopped and not samples:
        return "not run", f"{stopped} before the first run: no node was free, or none worked"
    if failures and not stopped:
        return "machine failed", _and_more(str(failures[0]), len(failures) - 1)
    if status == _INPUT and not samples:
        return "not run", message
    if status not in (0, 1) and not stopped:
        ending = f"was killed by signal {-status}" if status < 0 else "ended"
        text = (
            message
            if status in (_INPUT, _FAILED)
            else f"the run {ending} (status {status}): {message}"
        )
        return "machine failed", text
    if alarms:
        return "slower", _and_more(alarms[0].text, len(alarms) - 1)
    if stopped:
        return "inconclusive", f"{stopped} before all cases were measured"
    undecided = list(
        dict.fromkeys(row["case"] for row in summary.figures if row["verdict"] in _OPEN)
    )
    if undecided:
        return "inconclusive", f"undecided: {', '.join(undecided)}"
    return "measured", f"{samples} samples" if samples else "the night before had taken all samples"


def _and_more(text: str, more: int) -> str:
    return f"{text} (and {more} more)" if more else text


def prometheus_text(summary: Summary) -> str:
    """The text of a file for the textfile collector: each metric with its type and values."""
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
    for end in ("value", "low", "high"):
        names = ("case", "arm", "quantity", "unit")
        metrics[f"night_{end}"] = [
            (night_labels | {name: figure[name] for name in names}, figure[end])
            for figure in summary.figures
        ]
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    lines = []
    for metric, rows in metrics.items():
        present = [(labels, value) for labels, value in rows if value is not None]
        if present:
            lines.append(f"# TYPE nimc_{metric} gauge")
        for labels, value in present:
            inner = ",".join(f'{key}="{text.translate(escapes)}"' for key, text in labels.items())
            lines.append(f"nimc_{metric}{{{inner}}} {float(value)!r}")
    return "\n".join([*lines, ""])
