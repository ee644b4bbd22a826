"""Views of Open|SpeedShop as CSV (`expview -F csv`).

The CSV has no quotes: the last column, a name, may contain commas. An empty cell means 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reframe_tests.tools.base import ToolError, figure

#: Name of the last line of some views, which has the sums.
_SUMMARY = "Report Summary"
#: Names of the last column.
_NAMES = ("Function (defining location)", "LinkedObject")


@dataclass(frozen=True)
class View:
    """One view of one rank."""

    path: Path
    #: Names of the columns of numbers.
    columns: tuple[str, ...]
    #: Name (function or linked object) and its numbers, one per column. Names may repeat.
    rows: tuple[tuple[str, tuple[float, ...]], ...]

    def values(self, column: str) -> list[tuple[str, float]]:
        """Name and value of each row. Raises ToolError if there is no such column.

        Open|SpeedShop prints names of events in lower case in some views.
        """
        names = [name.lower() for name in self.columns]
        if column.lower() not in names:
            raise ToolError(f"{self.path}: no column {column!r}; found: {', '.join(self.columns)}")
        place = names.index(column.lower())
        return [(name, numbers[place]) for name, numbers in self.rows]

    def total(self, column: str) -> float:
        """Sum over all rows."""
        return sum(value for _, value in self.values(column))


def read_view(path: Path) -> View:
    """The view in a file. Raises ToolError, with the file's own line if it has no table."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        raise ToolError(f"{path}: no such file: openss made no view") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ToolError(f"{path}: empty: openss has no data of this rank")
    columns = lines[0].split(",")
    if columns[-1] not in _NAMES or len(lines) < 2:
        raise ToolError(f"{path}: no table: {lines[0].strip()}")
    rows = [_row(path, line, len(columns)) for line in lines[1:]]
    return View(path, tuple(columns[:-1]), tuple(row for row in rows if row[0] != _SUMMARY))


def _row(path: Path, line: str, columns: int) -> tuple[str, tuple[float, ...]]:
    *numbers, name = line.split(",", columns - 1)
    try:
        values = tuple(figure(number or 0) for number in numbers)
    except ValueError:
        values = ()
    if len(values) != columns - 1:
        raise ToolError(f"{path}: not a row of {columns} columns: {line!r}")
    return name, values
