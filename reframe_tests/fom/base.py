"""Types and helpers for the parsers of figures of merit."""

from __future__ import annotations

import re

from nimc.node.readers import Fom, FomError

__all__ = ["FLOAT", "Fom", "FomError"]

#: A number as C, C++ and Fortran print it.
FLOAT = r"([-+]?(?:[0-9.]+(?:[eEdD][-+]?\d+)?|nan|NaN|inf|Infinity))"


def last_match(pattern: str, text: str, what: str) -> re.Match[str]:
    """The last match of `pattern`; raises FomError naming `what` if there is none."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if not matches:
        raise FomError(f"the output has no {what}")
    return matches[-1]


def last_number(label: str, text: str) -> float:
    """The number after the last `label` that starts a line, SI prefix and unit as printed."""
    found = last_match(rf"^\s*{re.escape(label)}\s*{FLOAT}", text, f"'{label}'")
    return float(found.group(1).replace("d", "e").replace("D", "e"))


def require_positive(what: str, value: float) -> float:
    """`value`; raises FomError if it is not a positive number."""
    if not 0 < value < float("inf"):  # also refuses NaN
        raise FomError(f"{what} is {value:g}")
    return value


def require_close(what: str, value: float, known: float, relative: float) -> None:
    """Raise FomError unless `value` is within `relative` of `known`."""
    if not abs(value - known) <= relative * abs(known):  # also refuses NaN
        raise FomError(
            f"{what} is {value:g}; expected: {known:g} within a relative error of {relative:g}"
        )
