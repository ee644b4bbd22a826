"""Progress of a campaign and its remaining time, on standard error."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from records.text import duration, one_line
from records.units import quantity

Progress = Literal["quiet", "normal", "verbose"]
#: How often a plain line is printed, seconds.
_PLAIN_S = 30.0


class NewSamples:
    """Samples appended to a file from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_bytes() if path.exists() else b""
        self._offset = text.rfind(b"\n") + 1  # a torn line is cut off before the next is written

    def new(self) -> list[Mapping[str, Any]]:
        """Complete samples since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                whole, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:  # not yet, or not any more
            return []
        self._offset += len(whole) + len(end)
        return [json.loads(line) for line in whole.splitlines()]


@dataclass
class Pace:
    """How long the runs of a session took, and were planned to take, from block to block."""

    took_s: float = 0.0
    planned_s: float = 0.0

    @property
    def factor(self) -> float:
        """The one by the other; 1 before the first runs."""
        return self.took_s / self.planned_s if self.took_s and self.planned_s else 1.0

    def with_more(self, took_s: float, planned_s: float) -> Pace:
        """The same with more runs."""
        return Pace(self.took_s + took_s, self.planned_s + planned_s)


@dataclass
class RunCounter:
    """Counts the runs of a block and estimates the remaining time. The time is an argument.

    What a block does before its first run is not taken for the length of a run: time is counted
    from the end of the first one.
    """

    #: Expected length of everything after the block, seconds.
    later_s: float
    #: Runs of the block, its expected length, and that of a run, seconds.
    block_runs: int
    block_s: float
    run_s: float
    started_s: float
    #: That of the blocks before.
    before: Pace = field(default_factory=Pace)
    done: int = 0
    rejected: int = 0
    #: Clock time of the first and of the last sample.
    first_s: float | None = None
    last_s: float = 0.0
    #: Accepted runs since the first sample.
    since_first: int = 0
    #: Why the block's job has not started; empty if it has.
    waits: str = ""

    def wait(self, why: str, now_s: float) -> None:
        """Note why the block waits in the queue, which is no part of its length; empty if not."""
        self.waits = why
        if why:
            self.started_s = now_s

    def add(self, sample: Mapping[str, Any], now_s: float) -> None:
        """Count one sample; rejected runs are repeated."""
        accepted = sample["outcome"] == "kept"
        if accepted:
            self.done += 1
            # A warm-up that was too short is repeated, and not in the plan.
            self.block_runs = max(self.block_runs, self.done)
        else:
            self.rejected += 1
        if self.first_s is None:
            self.first_s = now_s
        else:
            self.since_first += accepted
        self.last_s = now_s

    @property
    def is_known(self) -> bool:
        """Whether the block itself shows how long its runs take: two of them are done."""
        return self.done > 1

    @property
    def pace(self) -> Pace:
        """That of the session so far."""
        if self.first_s is None:
            return self.before
        return self.before.with_more(self.last_s - self.first_s, self.since_first * self.run_s)

    def left_s(self, now_s: float) -> float:
        """Remaining time, the least one unless `is_known`."""
        left, factor = self.block_runs - self.done, self.pace.factor
        if self.is_known and self.first_s is not None:
            run_s = (self.last_s - self.first_s) / self.since_first
            block_s = max(0.0, left * run_s - (now_s - self.last_s))
        else:
            planned_s = factor * self.block_s - (now_s - self.started_s)
            block_s = max(planned_s, factor * left * self.run_s)
        return block_s + factor * self.later_s


class Display:
    """Lines for a log file: at the start of a block and twice a minute; of every run if verbose.

    On a `terminal` one line, redrawn in place. It wakes no thread, which would disturb runs.
    """

    def __init__(self, progress: Progress = "normal", *, terminal: bool = False) -> None:
        self._progress = progress
        self._terminal = terminal
        self._what = ""
        self._next_s = 0.0

    def show(self, what: str, counter: RunCounter, now_s: float) -> None:
        """Print or redraw how far a block is, if a line is due."""
        text = one_line(_words(what, counter, now_s))
        if self._terminal:
            self._draw(text[: shutil.get_terminal_size().columns - 1])
        elif self._progress != "quiet" and (what != self._what or now_s >= self._next_s):
            self._what, self._next_s = what, now_s + _PLAIN_S
            self.tell(text)

    def tell(self, text: str) -> None:
        """Print a line that stays."""
        self.close()
        print(f"nimc: {one_line(text)}", file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """Print a line that only verbose output has."""
        if self._progress == "verbose":
            self.tell(text)

    def close(self) -> None:
        """Remove what would be out of date."""
        if self._terminal:
            self._draw("")

    def _draw(self, text: str) -> None:
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def display(progress: Progress = "normal") -> Display:
    """One line on a terminal, several elsewhere and if verbose."""
    return Display(progress, terminal=progress == "normal" and sys.stderr.isatty())


def _words(what: str, counter: RunCounter, now_s: float) -> str:
    if counter.waits:
        return f"{what}: {counter.waits}"
    rejected = f", {counter.rejected} rejected" if counter.rejected else ""
    return (
        f"{what}: {counter.done} of {counter.block_runs} runs{rejected}, "
        f"{'about' if counter.is_known else 'at least'} {duration(counter.left_s(now_s))} left"
    )


def run_line(sample: Mapping[str, Any]) -> str:
    """A run in one line: its key, and its figure of merit or why it was rejected."""
    if sample["outcome"] != "kept":
        return f"{sample['key']} {sample['outcome']}: {sample.get('reason')}"
    warmup = " (warm-up)" if sample.get("warmup") else ""
    fom = sample.get("fom")
    figure = "no figure" if fom is None else quantity(fom, sample["fom_unit"])
    return f"{sample['key']} {figure}{warmup}"
