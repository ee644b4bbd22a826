"""What the file of a workload says of it besides its check, and helpers for its parser.

`reframe_tests/NAME.py` holds the check NAME, the parser of its output, and both in one record
`WORKLOAD`. Standard library only: the conductor of checks without a record imports this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from conductor.readers import Fom, FomError
from records.errors import InputError
from records.sample import Better

__all__ = ["FLOAT", "Fom", "FomError"]

#: A number as C, C++ and Fortran print it.
FLOAT = r"([-+]?(?:[0-9.]+(?:[eEdD][-+]?\d+)?|nan|NaN|inf|Infinity))"
#: A line of UCX's log. It goes to standard output, where it may stand amid a line of another rank.
_UCX_LOG = re.compile(r"\[\d+\.\d{6}\] \[\S+?:\d+:\d+\][^\n]*? UCX {1,2}[A-Z]+[^\n]*\n?")
_RECORD = re.compile(r"^WORKLOAD = ", re.MULTILINE)


@dataclass(frozen=True)
class Workload:
    """A workload: its figure of merit, and what proves its result correct."""

    title: str
    #: The figure of merit in words, its SI unit, and whether lower or higher is better.
    fom: str
    unit: str
    better: Better
    #: What the parser requires before it accepts the figure.
    sanity: str
    #: Standard output -> figure of merit; raises `FomError`, or ValueError or ArithmeticError if
    #: something is not a number.
    parser: Callable[[str], Fom]

    def parse(self, stdout: str) -> Fom:
        """The figure of merit, a positive number; raises only `FomError`, for any output."""
        try:
            fom = self.parser(_UCX_LOG.sub("", stdout))
        except (ValueError, ArithmeticError) as error:
            raise FomError(f"the output cannot be read: {error}") from None
        require_positive(f"the {self.fom}", fom.value)
        return replace(fom, extra={k: v for k, v in fom.extra.items() if math.isfinite(v)})


def names() -> list[str]:
    """Names of all workloads: the files that have a record."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [path.stem for path in files if _RECORD.search(path.read_text(encoding="utf-8"))]


def load(name: str) -> Workload:
    """The record of a workload; its module imports ReFrame. Raises InputError for other names."""
    if name not in names():
        raise InputError(f"workload: {name} found; allowed: {', '.join(names())}")
    record: Workload = import_module(f"{__package__}.{name}").WORKLOAD
    return record


# Helpers for parsers.


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
