"""Simulations behind the tables of docs/. Not part of the program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

#: Part of every seed. It changes whenever a constant is chosen by the results of the studies, so
#: that the tables of docs/ do not show the draws by which it was chosen.
FRESH = 50


def row(cells: Iterable[str]) -> str:
    """A row of a table, as Markdown."""
    return f"| {' | '.join(cells)} |"


def head(names: Sequence[str]) -> list[str]:
    """The first lines of a table, after an empty one."""
    return ["", row(names), row(["---"] * len(names))]


def show(table: Callable[[int], Iterable[str]], size: int) -> None:
    """Print the lines of a table as they are made; the first argument replaces the size."""
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else size):
        print(line, flush=True)
