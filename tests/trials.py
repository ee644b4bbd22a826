"""Runs trials: it tries the rows of a table in turn, each trial with its own random numbers.

`tests.fuzz` uses it to give damaged inputs to parsers and commands, `tests.faults` to disturb
campaigns. The same seed always gives the same trials. A trial that fails is printed, and the exit
status is 1.
"""

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

#: The kind of the outcome of a trial that failed.
FAILED = "failed"


class Row(Protocol):
    @property
    def name(self) -> str: ...


AnyRow = TypeVar("AnyRow", bound=Row)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial."""

    #: The column of the printed table in which this outcome is counted.
    kind: str
    #: A text for each fault that the trial found.
    wrong: Sequence[str] = ()
    #: A remark that is printed even if nothing is wrong.
    note: str = ""


def arguments(program: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all tables have."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="index of the first trial")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--count", type=int, help="number of trials [default: each row once]")
    length.add_argument("--seconds", type=float, help="begin trials for so long")
    parser.add_argument("--only", type=lambda text: text.split(","), help="words in rows' names")
    return parser


def select_rows(rows: Sequence[AnyRow], words: Sequence[str] | None) -> Sequence[AnyRow]:
    """Return the rows whose names contain one of the words; without words, return all rows.

    Ends the program if no name contains a word.
    """
    names = [row.name for row in rows]
    for word in words or ():
        if not any(word in name for name in names):
            print(f"{word}: in the name of no row; rows: {', '.join(names)}", file=sys.stderr)
            sys.exit(2)
    return [row for row in rows if not words or any(word in row.name for word in words)]


def draw_trial(rows: Sequence[AnyRow], seed: int, index: int) -> tuple[AnyRow, random.Random]:
    """Return the row of a trial, and the trial's random numbers.

    Every row is drawn once, in random order, before any row is drawn again. Each turn has another
    order.
    """
    turn, position = divmod(index, len(rows))
    order = random.Random(f"{seed} {turn}").sample(rows, len(rows))
    return order[position], random.Random(f"{seed} {index}")


def run(
    rows: Sequence[AnyRow],
    trial: Callable[[AnyRow, random.Random, int], Outcome],
    *,
    kinds: Sequence[str],
    options: argparse.Namespace,
) -> int:
    """Make the trials, and print the table of outcomes; return the exit status.

    `kinds` are the kinds of outcomes that have a column in the table, besides `FAILED`.
    """
    outcome_counts: dict[str, Counter[str]] = {}
    for index in _indices(options, len(rows)):
        row, rng = draw_trial(rows, options.seed, index)
        began_s = time.monotonic()
        outcome = trial(row, rng, index)
        took_s = time.monotonic() - began_s
        outcome_counts.setdefault(row.name, Counter())[outcome.kind] += 1
        if outcome.wrong or outcome.note:
            head = f"{index:4} {row.name:26} {outcome.kind:6} {took_s:4.0f} s  {outcome.note}"
            lines = (f"       {line}" for text in outcome.wrong for line in text.splitlines())
            print("\n".join((head, *lines)), flush=True)
    return _report(outcome_counts, kinds, options.seed)


def _indices(options: argparse.Namespace, row_count: int) -> Iterator[int]:
    """Yield indices of trials until the requested number of trials or time is reached.

    By default, the number of trials is `row_count`.
    """
    if options.seconds is None:
        yield from range(options.first, options.first + (options.count or row_count))
        return
    deadline_s = time.monotonic() + options.seconds
    yield from itertools.takewhile(
        lambda _: time.monotonic() < deadline_s, itertools.count(options.first)
    )


def _report(outcome_counts: dict[str, Counter[str]], kinds: Sequence[str], seed: int) -> int:
    """Print the table of outcomes; return the exit status, which is 1 if a trial failed."""
    columns = (*kinds, FAILED)
    print(f"\n| row (seed {seed}) | tried | {' | '.join(columns)} |")
    print("|---" * (2 + len(columns)) + "|")
    total = sum(outcome_counts.values(), Counter())
    for name, outcomes in [*sorted(outcome_counts.items()), ("all", total)]:
        cells = " | ".join(str(outcomes[kind]) for kind in columns)
        print(f"| {name} | {outcomes.total()} | {cells} |")
    return int(total[FAILED] > 0)
