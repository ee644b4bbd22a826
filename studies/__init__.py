"""Simulations behind the tables of docs/. Not part of the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def row(cells: Iterable[str]) -> str:
    """A row of a table, as Markdown."""
    return f"| {' | '.join(cells)} |"


def head(names: Sequence[str]) -> list[str]:
    """The first lines of a table, after an empty one."""
    return ["", row(names), row(["---"] * len(names))]
