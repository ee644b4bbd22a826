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
#: Characters of a bar.
_BAR = 24


class NewSamples:
    """Samples appended to a file from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_bytes() if path.exists() else b""
        self._offset = text.rfind(b"\n") + 1  # a torn line is cut off before the next is written

    def new(self) -> list[Mapping[str, Any]]:
        """Complete samples since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, end, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(end)
        return [json.loads(line) for line in whole.splitlines()]


@dataclass
class RunCounter:
    """Counts runs and estimates the remaining time. Pure: the time is an argument."""

    #: Expected length of everything after the current block, seconds.
    later_s: float
    #: Runs of the current block, and its expected length in seconds.
    block_runs: int
    block_s: float
    started_s: float
    #: Expected length of one run; and of all runs of earlier blocks, as expected and as measured.
    run_s: float = 0.0
    before: tuple[float, float] = (0.0, 0.0)
    done: int = 0
    rejected: int = 0
    #: Clock times of the first and of the last sample.
    first_s: float = field(default=0.0)
    last_s: float = field(default=0.0)
    #: Why the block's job has not started; empty if it has.
    waits: str = ""

    def wait(self, why: str, now_s: float) -> None:
        """Note why the block waits in the queue, which is no part of its length; empty if not."""
        self.waits = why
        if why:
            self.started_s = now_s

    def add(self, sample: Mapping[str, Any], now_s: float) -> None:
        """Count one sample; rejected runs are repeated."""
        if not (self.done or self.rejected):
            self.first_s = now_s
        if sample["outcome"] == "kept":
            self.done += 1
            # A warm-up that was too short is repeated, and not in the plan.
            self.block_runs = max(self.block_runs, self.done)
        else:
            self.rejected += 1
        self.last_s = now_s

    @property
    def lengths_s(self) -> tuple[float, float]:
        """Lengths of all runs so far, as expected and as measured."""
        expected_s, measured_s = self.before
        if self.done < 2:
            return self.before
        return expected_s + (self.done - 1) * self.run_s, measured_s + self.last_s - self.first_s

    @property
    def pace(self) -> float:
        """By how much runs take longer than expected."""
        expected_s, measured_s = self.lengths_s
        return measured_s / expected_s if expected_s else 1.0

    def left_s(self, now_s: float) -> float:
        """Remaining time: from the runs so far, before the first from the plan."""
        later_s = self.later_s * self.pace
        if not self.done:
            return max(0.0, self.block_s * self.pace - (now_s - self.started_s)) + later_s
        mean_s = (self.last_s - self.started_s) / self.done
        block_s = (self.block_runs - self.done) * mean_s - (now_s - self.last_s)
        return max(0.0, block_s) + later_s


class PlainDisplay:
    """Lines for a log file: at the start of a block and twice a minute; of every run if verbose."""

    def __init__(self, progress: Progress = "normal") -> None:
        self._progress = progress
        self._what = ""
        self._next_s = 0.0

    def show(self, what: str, counter: RunCounter, now_s: float) -> None:
        """Print a line if one is due."""
        if self._progress == "quiet" or (what == self._what and now_s < self._next_s):
            return
        self._what, self._next_s = what, now_s + _PLAIN_S
        self.tell(_words(what, counter, now_s))

    def tell(self, text: str) -> None:
        """Print a line that stays."""
        print(f"nimc: {one_line(text)}", file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """Print a line that only verbose output has."""
        if self._progress == "verbose":
            self.tell(text)

    def close(self) -> None:
        """Remove what would be out of date."""


class TerminalDisplay(PlainDisplay):
    """One line with a bar, redrawn in place. It wakes no thread, which would disturb runs."""

    def show(self, what: str, counter: RunCounter, now_s: float) -> None:
        """Redraw."""
        full = _BAR * counter.done // max(counter.block_runs, 1)
        bar = "#" * full + "." * (_BAR - full)
        line = one_line(f"{_words(what, counter, now_s)} {bar}")
        self._draw(line[: shutil.get_terminal_size().columns - 1])

    def tell(self, text: str) -> None:
        """Print a line above the bar."""
        self._draw("")
        super().tell(text)

    def close(self) -> None:
        """Remove the bar."""
        self._draw("")

    def _draw(self, text: str) -> None:
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def display(progress: Progress = "normal") -> PlainDisplay:
    """A bar on a terminal, lines elsewhere; always lines if verbose."""
    on_terminal = progress == "normal" and sys.stderr.isatty()
    return TerminalDisplay() if on_terminal else PlainDisplay(progress)


def _words(what: str, counter: RunCounter, now_s: float) -> str:
    if counter.waits:
        return f"{what}: {counter.waits}"
    rejected = f", {counter.rejected} rejected" if counter.rejected else ""
    return (
        f"{what}: {counter.done} of {counter.block_runs} runs{rejected}, "
        f"about {duration(counter.left_s(now_s))} left"
    )


def run_line(sample: Mapping[str, Any]) -> str:
    """A run in one line: its key, and its figure of merit or why it was rejected."""
    if sample["outcome"] != "kept":
        return f"{sample['key']} {sample['outcome']}: {sample.get('reason')}"
    warmup = " (warm-up)" if sample.get("warmup") else ""
    fom = sample.get("fom")
    figure = "no figure" if fom is None else quantity(fom, sample["fom_unit"])
    return f"{sample['key']} {figure}{warmup}"
