"""Simulations that compute tables of docs/. They are no part of the program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

#: Part of every seed. It is changed whenever a constant of the program is chosen by the results of
#: the studies. So the tables of docs/ come from other random numbers than the choice.
FRESH = 50


def row(cells: Iterable[str]) -> str:
    """Return a row of a table, as Markdown."""
    return f"| {' | '.join(cells)} |"


def head(names: Sequence[str]) -> list[str]:
    """Return an empty line and the first lines of a table, as Markdown."""
    return ["", row(names), row(["---"] * len(names))]


def show(table: Callable[[int], Iterable[str]], size: int) -> None:
    """Print each line of a table as soon as it is made.

    `size` is the number of simulations, unless the command line has another.
    """
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else size):
        print(line, flush=True)
