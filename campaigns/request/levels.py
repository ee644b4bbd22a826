"""Factors, levels and cells as a campaign file may give them."""

from __future__ import annotations

import math
import re
from typing import Any

from reframe_tests.crossing import level_text, read_level

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: Longest level, characters; it becomes part of file names.
_LONGEST = 40

FACTORS_RULE = (
    "a mapping of factors to lists of levels, such as rate: [0, 25%, full]; each level once: a"
    f" number, true, false, or a word of at most {_LONGEST} characters without , ; = quotes, spaces"
)
CELLS_RULE = "a list of mappings of factors, or arm, to one level each, such as {workers: free}"


def check_factors(factors: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError for an invalid factor or list of levels."""
    for name, levels in factors.items():
        _check_name(name)
        if not isinstance(levels, list) or not levels:
            raise ValueError(f"{name}: no list of levels found")
        for index, level in enumerate(levels):
            _check_level(level)
            if level in levels[:index]:
                raise ValueError(f"{name}: duplicate level {level!r}")
    return factors


def check_cells(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Raises ValueError for a cell without a factor, or without a single level of one."""
    for cell in cells:
        if not cell:
            raise ValueError("empty cell")
        for name, level in cell.items():
            _check_name(name)
            _check_level(level)
    return cells


def _check_name(name: str) -> None:
    if not VARIABLE.fullmatch(name):
        raise ValueError(f"{name!r} is an invalid name of a factor")


def _check_level(level: Any) -> None:
    """Levels are passed to ReFrame as text: what does not read back the same is refused."""
    if type(level) not in (int, float, bool, str):
        raise ValueError(f"{level!r:.60} is not a number, a word, true or false")
    if isinstance(level, float) and not math.isfinite(level):
        raise ValueError(f"{level} is not a finite number")
    text = level_text(level)
    plain = text.isprintable() and not any(c in ',;="\\' or c.isspace() for c in text)
    if not 0 < len(text) <= _LONGEST or not plain:
        raise ValueError(f"{text!r:.60} is an invalid level")
    again = read_level(text)
    if type(again) is not type(level) or again != level:
        raise ValueError(f"{text!r} is an invalid word: it reads as {again!r}")
