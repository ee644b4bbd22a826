"""Faults of a stored run: one line each, which names file, line and field; and rules for rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

#: Most faults that are listed; the rest are counted.
LISTED = 20
#: Since this schema, of runs and of samples, samples are in a chain.
CHAINED = 4
UNPROVEN = "written before samples were in a chain: that none was changed is unproven"
#: What is computed twice from the same numbers, maybe in another order, differs by rounding only.
ROUNDING = 1e-9


class Faults:
    """The first lines, and how many there are in all."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        #: Those of them by which a file is not what was written.
        self.broken: list[str] = []
        self.count = 0

    def add(self, line: str, *, broken: bool = False) -> None:
        """Add a fault; `broken`: the file was changed."""
        self.count += 1
        if len(self.lines) < LISTED:
            self.lines.append(line)
            self.broken += [line] if broken else []

    def listed(self) -> list[str]:
        """The lines, and how many more there are."""
        more = self.count - len(self.lines)
        return [*self.lines, f"and {more:,} more"] if more else list(self.lines)


class Rule(NamedTuple):
    """What no sample may be: an expression that is true of a faulty row, and what is required."""

    field: str
    broken: pl.Expr
    required: str


class Rows:
    """The samples of a run, with the places that they were read from."""

    def __init__(self, frame: pl.DataFrame, files: Mapping[Path, int]) -> None:
        """`files`: each file with the number of its rows, in their order (`columns.Samples`)."""
        self.frame = frame
        self._paths = list(files)
        self._firsts = list(accumulate(files.values(), initial=0))

    def at(self, row: int) -> str:
        """File and line of a row."""
        file = bisect_right(self._firsts, row, hi=len(self._paths)) - 1
        return f"{self._paths[file]}:{row - self._firsts[file] + 1}"

    def judge(self, rules: Sequence[Rule], faults: Faults) -> None:
        """Add a fault for every row that breaks a rule; unknown (null) breaks none."""
        broken = self.frame.lazy().select(
            rule.broken.fill_null(value=False).arg_true().implode().alias(str(number))
            for number, rule in enumerate(rules)
        )
        for rule, rows in zip(rules, broken.collect().row(0), strict=True):
            for row in rows:
                value: Any = self.frame[rule.field][row] if faults.count < LISTED else None
                line = f"{rule.field}: {value!r} found; allowed: {rule.required}"
                faults.add(f"{self.at(row)}: {line}")
