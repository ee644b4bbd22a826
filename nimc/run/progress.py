"""Progress of a campaign and its remaining time, on standard error."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from analysis.display.figures import quantity
from analysis.display.lines import duration
from records.text import one_line

Progress = Literal["quiet", "normal", "verbose"]
#: How often a plain line is printed, seconds.
PLAIN_S = 30.0
#: Numbers in reasons, which differ from run to run.
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class NewSamples:
    """Reads the samples that are appended to a file from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        content = path.read_bytes() if path.exists() else b""
        # A torn line at the end is cut off before the next line is written.
        self._offset = content.rfind(b"\n") + 1

    def new(self) -> list[Mapping[str, Any]]:
        """Return the complete samples since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                lines, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:  # it is not yet there, or was removed
            return []
        self._offset += len(lines) + len(end)
        return [json.loads(line) for line in lines.splitlines()]


@dataclass
class SessionPace:
    """The time that the runs of a session took, and the time that was planned for them."""

    took_s: float = 0.0
    planned_s: float = 0.0

    @property
    def factor(self) -> float:
        """Return the time taken, divided by the time planned; 1 before the first runs."""
        return self.took_s / self.planned_s if self.took_s and self.planned_s else 1.0

    def with_runs(self, took_s: float, planned_s: float) -> SessionPace:
        """Return the pace with further runs."""
        return SessionPace(self.took_s + took_s, self.planned_s + planned_s)


class ExpectedTime(NamedTuple):
    """How long blocks are expected to take, up to each case's floor and up to its cap."""

    least_s: float
    most_s: float


def expected_total(expected_times: Iterable[ExpectedTime]) -> ExpectedTime:
    """Return the sum of expected times."""
    times = list(expected_times)
    return ExpectedTime(sum(time.least_s for time in times), sum(time.most_s for time in times))


@dataclass(kw_only=True)
class RunCounter:
    """Counts the runs of a block and estimates the remaining time. Clock times are arguments.

    Runs are timed from the end of the first one, since a block also builds and starts before it.
    """

    #: Expected time after the block; `most_s` applies if no case is decided before its cap.
    after_block: ExpectedTime
    #: Number of runs of the block.
    block_runs: int
    #: Expected length of the block.
    block_s: float
    #: Expected length of a run.
    run_s: float
    started_s: float
    #: The pace of the earlier blocks.
    earlier_pace: SessionPace = field(default_factory=SessionPace)
    accepted_runs: int = 0
    rejected_runs: int = 0
    #: Clock time of the first and of the last sample.
    first_s: float | None = None
    last_s: float = 0.0
    #: Accepted runs after the first sample.
    accepted_after_first: int = 0
    #: Why the block's job has not started; empty if it has.
    pending_reason: str = ""

    def wait(self, reason: str, now_s: float) -> None:
        """Note why the block waits in the queue, empty if it does not. Waiting is not counted."""
        self.pending_reason = reason
        if reason:
            self.started_s = now_s

    def add(self, sample: Mapping[str, Any], now_s: float) -> None:
        """Count one sample; rejected runs are repeated."""
        is_accepted = sample["outcome"] == "accepted"
        if is_accepted:
            self.accepted_runs += 1
            # A warm-up that was too short is repeated, and the plan does not have the second one.
            self.block_runs = max(self.block_runs, self.accepted_runs)
        else:
            self.rejected_runs += 1
        if self.first_s is None:
            self.first_s = now_s
        else:
            self.accepted_after_first += is_accepted
        self.last_s = now_s

    @property
    def is_known(self) -> bool:
        """Return whether the block shows how long its runs take: two have been accepted."""
        return self.accepted_runs > 1

    @property
    def pace(self) -> SessionPace:
        """Return the pace of the session so far."""
        if self.first_s is None:
            return self.earlier_pace
        planned_s = self.accepted_after_first * self.run_s
        return self.earlier_pace.with_runs(self.last_s - self.first_s, planned_s)

    def remaining(self, now_s: float) -> ExpectedTime:
        """Return the remaining time. Unless `is_known`, the block may take longer."""
        remaining_runs, factor = self.block_runs - self.accepted_runs, self.pace.factor
        if self.is_known and self.first_s is not None:
            run_s = (self.last_s - self.first_s) / self.accepted_after_first
            block_s = max(0.0, remaining_runs * run_s - (now_s - self.last_s))
        else:
            planned_s = factor * self.block_s - (now_s - self.started_s)
            block_s = max(planned_s, factor * remaining_runs * self.run_s)
        return ExpectedTime(
            least_s=block_s + factor * self.after_block.least_s,
            most_s=block_s + factor * self.after_block.most_s,
        )


class Display:
    """Prints the progress of a campaign.

    A log file gets a line at the start of a block and twice a minute, and one for every run if
    output is verbose. A `terminal` has one line that is redrawn. There is no thread, which would
    disturb runs.
    """

    def __init__(self, progress: Progress = "normal", *, terminal: bool = False) -> None:
        self._progress = progress
        self._terminal = terminal
        self._shown_block = ""
        self._next_s = 0.0
        #: Cases and reasons of rejected runs that were printed, without the numbers in them.
        self._rejections: set[tuple[str, str]] = set()

    def show(self, block_name: str, counter: RunCounter, now_s: float) -> None:
        """Print or redraw how far a block is, if a line is due."""
        line = one_line(_progress_line(block_name, counter, now_s))
        if self._terminal:
            self._draw(line[: shutil.get_terminal_size().columns - 1])
        elif self._progress != "quiet" and (
            block_name != self._shown_block or now_s >= self._next_s
        ):
            self._shown_block, self._next_s = block_name, now_s + PLAIN_S
            self.tell(line)

    def tell(self, line: str) -> None:
        """Print a line that stays."""
        self.close()
        print(f"nimc: {one_line(line)}", file=sys.stderr, flush=True)

    def detail(self, line: str) -> None:
        """Print a line that only verbose output has."""
        if self._progress == "verbose":
            self.tell(line)

    def tell_run(self, sample: Mapping[str, Any]) -> None:
        """Print a run if output is verbose, else the first rejected run of each case and reason."""
        rejection = (str(sample.get("case")), _NUMBER.sub("0", str(sample.get("reason"))))
        is_new = sample["outcome"] != "accepted" and rejection not in self._rejections
        if self._progress == "verbose" or (is_new and self._progress == "normal"):
            self._rejections.add(rejection)
            self.tell(run_line(sample))

    def close(self) -> None:
        """Remove the line on the terminal, which would be out of date."""
        if self._terminal:
            self._draw("")

    def _draw(self, line: str) -> None:
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def display(progress: Progress = "normal") -> Display:
    """Return a display; it redraws its line on a terminal if progress is normal."""
    return Display(progress, terminal=progress == "normal" and sys.stderr.isatty())


def _progress_line(block_name: str, counter: RunCounter, now_s: float) -> str:
    if counter.pending_reason:
        return f"{block_name}: {counter.pending_reason}"
    rejected = f", {counter.rejected_runs} rejected" if counter.rejected_runs else ""
    runs = f"{block_name}: {counter.accepted_runs} of {counter.block_runs} runs{rejected}"
    return f"{runs}, {_remaining_text(counter, now_s)} left"


def _remaining_text(counter: RunCounter, now_s: float) -> str:
    least, most = map(duration, counter.remaining(now_s))
    if not counter.is_known:
        return f"at least {least}"
    return f"about {least}" if least == most else f"{least} to {most}"


def run_line(sample: Mapping[str, Any]) -> str:
    """Return a run in one line: its key, and its figure of merit or why it was rejected."""
    if sample["outcome"] != "accepted":
        return f"{sample['key']} {sample['outcome']}: {sample.get('reason')}"
    warmup = " (warm-up)" if sample.get("warmup") else ""
    fom = sample.get("fom")
    figure = "no figure" if fom is None else quantity(fom, sample["fom_unit"])
    return f"{sample['key']} {figure}{warmup}"
