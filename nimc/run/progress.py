"""Prints the progress of a campaign and its remaining time on standard error.

A *session* is one call of `nimc run`. It measures blocks: each is the runs of the application in
one allocation. A *sample* is the record of one run.
"""

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

#: How much is printed.
Progress = Literal["quiet", "normal", "verbose"]
#: Time between two lines about the same block if standard error is not a terminal, seconds.
LINE_INTERVAL_S = 30.0
#: A number in the reason why a run was rejected. Numbers are ignored when reasons are compared.
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class NewSamples:
    """Reads the samples that are appended to a file after this object was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        content = path.read_bytes() if path.exists() else b""
        # The writer of this file removes an incomplete last line before it writes the next one.
        self._offset = content.rfind(b"\n") + 1

    def new(self) -> list[Mapping[str, Any]]:
        """Return the samples whose lines were completed since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                lines, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:  # the file was not made yet, or was removed
            return []
        self._offset += len(lines) + len(end)
        return [json.loads(line) for line in lines.splitlines()]


@dataclass
class SessionPace:
    """How long the runs of a session took, and how long they were planned to take."""

    took_s: float = 0.0
    planned_s: float = 0.0

    @property
    def factor(self) -> float:
        """Return the time taken, divided by the time planned; 1 before the first runs."""
        return self.took_s / self.planned_s if self.took_s and self.planned_s else 1.0

    def with_runs(self, took_s: float, planned_s: float) -> SessionPace:
        """Return the pace after further runs, which took `took_s` instead of `planned_s`."""
        return SessionPace(self.took_s + took_s, self.planned_s + planned_s)


class ExpectedTime(NamedTuple):
    """How long blocks are expected to take, seconds."""

    #: If each case ends at its floor: the least number of pairs.
    least_s: float
    #: If each case ends at its cap: the largest number of pairs.
    most_s: float


def expected_total(expected_times: Iterable[ExpectedTime]) -> ExpectedTime:
    """Return the sum of expected times."""
    times = list(expected_times)
    return ExpectedTime(sum(time.least_s for time in times), sum(time.most_s for time in times))


@dataclass(kw_only=True)
class RunCounter:
    """Counts the runs of a block and estimates the remaining time of the campaign.

    Clock times are passed as arguments, on any clock. Runs are timed from the end of the block's
    first run, since the time before it also contains the build and the start of the job.
    """

    #: Expected time of the campaign after this block.
    after_block: ExpectedTime
    #: Number of runs that the block is planned to have.
    block_runs: int
    #: Expected length of the block, seconds.
    block_s: float
    #: Expected length of a run, seconds.
    run_s: float
    #: Clock time at which the block started to run. While it waits in the queue, this is the time
    #: of the last call of `wait`.
    started_s: float
    #: The pace of the earlier blocks of the session.
    earlier_pace: SessionPace = field(default_factory=SessionPace)
    accepted_runs: int = 0
    rejected_runs: int = 0
    #: Clock time of the first sample; None before it.
    first_s: float | None = None
    #: Clock time of the last sample.
    last_s: float = 0.0
    #: Accepted runs after the first sample.
    accepted_after_first: int = 0
    #: Why the block's job has not started; empty if it has started.
    pending_reason: str = ""

    def wait(self, reason: str, now_s: float) -> None:
        """Store why the block waits in the queue; `reason` is empty if it does not wait.

        The time of waiting is not counted as time of the block.
        """
        self.pending_reason = reason
        if reason:
            self.started_s = now_s

    def add(self, sample: Mapping[str, Any], now_s: float) -> None:
        """Count one sample, accepted or rejected."""
        is_accepted = sample["outcome"] == "accepted"
        if is_accepted:
            self.accepted_runs += 1
            # A warm-up that was too short is repeated. The planned number of runs lacks the second.
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
        """Return whether two runs were accepted, so that the length of a run can be computed."""
        return self.accepted_runs > 1

    @property
    def pace(self) -> SessionPace:
        """Return the pace of the session so far."""
        if self.first_s is None:
            return self.earlier_pace
        planned_s = self.accepted_after_first * self.run_s
        return self.earlier_pace.with_runs(self.last_s - self.first_s, planned_s)

    def remaining(self, now_s: float) -> ExpectedTime:
        """Return the remaining time of the campaign.

        Unless `is_known`, the block may take longer.
        """
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

    On a terminal (`terminal`), one line is redrawn. Otherwise a line is printed at the start of a
    block and every 30 seconds, unless output is quiet. If output is verbose, each run has a line.
    There is no thread for this, since a thread would disturb runs.
    """

    def __init__(self, progress: Progress = "normal", *, terminal: bool = False) -> None:
        self._progress = progress
        self._terminal = terminal
        self._shown_block = ""
        self._next_s = 0.0
        #: Case and reason of each rejected run that was printed; numbers in reasons are replaced.
        self._rejections: set[tuple[str, str]] = set()

    def show(self, block_name: str, counter: RunCounter, now_s: float) -> None:
        """Redraw the progress of a block on a terminal, or else print it if a line is due."""
        line = one_line(_progress_line(block_name, counter, now_s))
        if self._terminal:
            self._draw(line[: shutil.get_terminal_size().columns - 1])
        elif self._progress != "quiet" and (
            block_name != self._shown_block or now_s >= self._next_s
        ):
            self._shown_block, self._next_s = block_name, now_s + LINE_INTERVAL_S
            self.tell(line)

    def tell(self, line: str) -> None:
        """Print a line that is not redrawn."""
        self.close()
        print(f"nimc: {one_line(line)}", file=sys.stderr, flush=True)

    def detail(self, line: str) -> None:
        """Print a line if output is verbose."""
        if self._progress == "verbose":
            self.tell(line)

    def tell_run(self, sample: Mapping[str, Any]) -> None:
        """Print a run, if it is to be printed.

        Verbose output has every run. Normal output has the first rejected run of each case and
        reason. Quiet output has no run.
        """
        rejection = (str(sample.get("case")), _NUMBER.sub("0", str(sample.get("reason"))))
        is_new = sample["outcome"] != "accepted" and rejection not in self._rejections
        if self._progress == "verbose" or (is_new and self._progress == "normal"):
            self._rejections.add(rejection)
            self.tell(run_line(sample))

    def close(self) -> None:
        """Remove the redrawn line from the terminal, since it would be out of date."""
        if self._terminal:
            self._draw("")

    def _draw(self, line: str) -> None:
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def display(progress: Progress = "normal") -> Display:
    """Return a display, which redraws a line if progress is normal and the output is a terminal."""
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
    """Return a line on a run: its key, then its figure of merit or why it was not accepted."""
    if sample["outcome"] != "accepted":
        return f"{sample['key']} {sample['outcome']}: {sample.get('reason')}"
    warmup = " (warm-up)" if sample.get("warmup") else ""
    fom = sample.get("fom")
    figure = "no figure" if fom is None else quantity(fom, sample["fom_unit"])
    return f"{sample['key']} {figure}{warmup}"
