"""Faults of a stored run: one line each, which names file, line and field; and rules for rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, pairwise
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

    def add(self, line: str, count: int = 1, *, broken: bool = False) -> None:
        """Add a fault, or one that stands for `count`; `broken`: the file was changed."""
        self.count += count
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
    """The samples of a run, numbered by `row`, with the places that they were read from."""

    def __init__(self, frame: pl.DataFrame, files: Mapping[Path, int], faults: Faults) -> None:
        """`files`: each file with the number of its rows, in their order (`columns.Samples`)."""
        self.frame = frame.with_row_index("row")
        #: Those of its rows are added to these.
        self.faults = faults
        self._paths = list(files)
        self._firsts = list(accumulate(files.values(), initial=0))

    def at(self, row: int) -> str:
        """File and line of a row."""
        file = bisect_right(self._firsts, row, hi=len(self._paths)) - 1
        return f"{self._paths[file]}:{row - self._firsts[file] + 1}"

    def add(self, row: int, name: str, value: str, allowed: str) -> None:
        """Add the fault of a row: the value found of a field, and what is allowed."""
        self.faults.add(f"{self.at(row)}: {name}: {value} found; allowed: {allowed}")

    def refuse(self, broken: pl.DataFrame, name: str, allowed: str, column: str = "") -> None:
        """Add a fault for each of `broken` samples, which have `row` and the field's `column`."""
        for row, value in broken.select("row", found=column or name).iter_rows():
            self.add(row, name, repr(value), allowed)

    def kinds(self, *fields: str, where: pl.Expr | bool = True) -> list[tuple[Any, ...]]:
        """Row and `fields` of the first sample of each kind, of those `where` holds."""
        chosen = self.frame.lazy().filter(where).select("row", *fields)
        return chosen.unique(fields, keep="first", maintain_order=True).collect().rows()

    def parts(self) -> list[tuple[Path, pl.DataFrame]]:
        """Each file with its rows."""
        ends = zip(self._paths, pairwise(self._firsts), strict=True)
        return [(path, self.frame[first:end]) for path, (first, end) in ends]

    def judge(self, rules: list[Rule]) -> None:
        """Add a fault for every row that breaks a rule; unknown (null) breaks none."""
        broken = self.frame.lazy().select(
            rule.broken.fill_null(value=False).arg_true().implode().alias(str(number))
            for number, rule in enumerate(rules)
        )
        for rule, found in zip(rules, broken.collect().row(0), strict=True):
            for row in found[:LISTED]:
                self.add(row, rule.field, repr(self.frame[rule.field][row]), rule.required)
            if len(found) > LISTED:
                self.faults.add("", len(found) - LISTED)


def mapped(
    frame: pl.DataFrame, name: str, of: Callable[[str], Any], type_: type[pl.DataType] = pl.String
) -> pl.Expr:
    """What a function gives of the texts in a column, called once for each of them."""
    table = {text: of(text) for text in frame[name].cast(pl.String).unique()}
    return pl.col(name).cast(pl.String).replace_strict(table, default=None, return_dtype=type_)


def differing(
    found: Mapping[str, Any], expected: Mapping[str, Any], within: str = "", *, whole: bool = False
) -> Iterator[tuple[str, Any, Any]]:
    """Field, value and expected value of all that both have and that is not the same.

    If both are `whole`, also what only one of them has.
    """
    for name in expected.keys() | found.keys() if whole else expected.keys() & found.keys():
        value, allowed = found.get(name), expected.get(name)
        if isinstance(value, list) and isinstance(allowed, list) and len(value) == len(allowed):
            value, allowed = (
                {str(at): part for at, part in enumerate(each)} for each in (value, allowed)
            )
        if isinstance(value, dict) and isinstance(allowed, dict):
            yield from differing(value, allowed, f"{within}{name}.", whole=whole)
        elif value != allowed:
            yield f"{within}{name}", value, allowed
