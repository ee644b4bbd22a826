"""The record of a workload: how its output is read, as data.

`reframe_tests/NAME.py` has the check NAME and its record `WORKLOAD`: the numbers in the output, the
figure of merit, and what proves the result. This module uses the standard library only. Compute
nodes may have no other packages, and `conduct.py`, which starts the conductor there, imports this
module even for checks without a record.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from conductor.block.readers import Fom, FomError
from records.errors import InputError
from records.last_words import unlabelled
from records.sample import Better

__all__ = ["Fom", "FomError"]

#: A number as C, C++ and Fortran print it.
FLOAT = r"([-+]?(?:[0-9.]+(?:[eEdD][-+]?\d+)?|nan|NaN|inf|Infinity))"
#: A line of UCX's log. UCX writes it to standard output, even inside a line of another rank.
_UCX_LOG = re.compile(r"\[\d+\.\d{6}\] \[\S+?:\d+:\d+\][^\n]*? UCX {1,2}[A-Z]+[^\n]*\n?")
#: A number whose commas group its digits by three. A decimal comma is refused: 1,5 and 0,123.
_GROUPED = re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?([eEdD][-+]?\d+)?\s*")
_RECORD = re.compile(r"^WORKLOAD = ", re.MULTILINE)

#: Finds a number: after a label that starts a line, as the first group of a pattern, or by a
#: function. If a label or a pattern matches several times, the last match counts.
NumberSource = str | re.Pattern[str] | Callable[[str], float]


class Within(NamedTuple):
    """A number that must lie between two limits."""

    #: Name of the number.
    number: str
    least: float
    most: float


class Near(NamedTuple):
    """A number that must equal what other numbers imply, within a relative error."""

    #: Name of the number.
    number: str
    #: Computes the expected value; its argument has all numbers as attributes.
    expected: Callable[[Any], float]
    relative_error: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload: its figure of merit, and what proves its result correct."""

    title: str
    #: The figure of merit in words, its SI unit, and whether lower or higher is better.
    fom: str
    unit: str
    better: Better
    #: Name of the number that is the figure of merit.
    figure: str
    #: Name -> source of the number in the output; names end in their SI unit. `ranks` is the
    #: number of all ranks of the program. If the program is started without its MPI, each rank is a
    #: program of its own, and reports 1.
    numbers: Mapping[str, NumberSource]
    #: Condition in words -> a pattern that the output must match, or limits of a number.
    proof: Mapping[str, str | Within | Near]
    #: Name -> a function that computes the number. Its argument has all `numbers`, and the derived
    #: numbers before this one, as attributes.
    derived: Mapping[str, Callable[[Any], float]] = field(default_factory=dict)
    #: Names of further numbers that are recorded.
    extra: tuple[str, ...] = ()
    #: Pattern of the message with which the program reports a failure.
    error: str = ""

    @property
    def sanity(self) -> str:
        """Return what is required before the figure is accepted."""
        return "; ".join(self.proof)

    def parse(self, stdout: str) -> Fom:
        """Return the figure of merit, a positive number. Raises only `FomError`, for any output."""
        text = _UCX_LOG.sub("", unlabelled(stdout))
        try:
            fom = self.read(text)
        except (ValueError, ArithmeticError, LookupError) as error:
            raise FomError(f"the output cannot be read: {error}") from None
        require_positive(f"the {self.fom}", fom.value)
        return fom

    def read(self, text: str) -> Fom:
        """Return the figure of merit, positive or not. A subclass may read it in another way.

        Raises FomError; or ValueError, ArithmeticError or LookupError if a number is unreadable.
        """
        if self.error and (error := re.search(self.error, text, re.MULTILINE)):
            raise FomError(" ".join(error.group().split()))
        for requirement, condition in self.proof.items():
            if isinstance(condition, str) and not re.search(condition, text, re.MULTILINE):
                raise FomError(f"the output does not show: {requirement}")
        numbers = SimpleNamespace()
        for name, source in self.numbers.items():
            setattr(numbers, name, _number(name, source, text))
        for name, function in self.derived.items():
            setattr(numbers, name, function(numbers))
        for requirement, condition in self.proof.items():
            if not isinstance(condition, str):
                _require(requirement, condition, numbers)
        extra = {name: float(getattr(numbers, name)) for name in self.extra}
        finite_extra = {name: value for name, value in extra.items() if math.isfinite(value)}
        ranks = getattr(numbers, "ranks", math.nan)
        fom = Fom(getattr(numbers, self.figure), finite_extra)
        return fom if math.isnan(ranks) else replace(fom, ranks=ranks)


def _number(name: str, source: NumberSource, text: str) -> float:
    if callable(source):
        return source(text)
    if isinstance(source, re.Pattern):
        return number(last_match(source.pattern, text, name).group(1))
    return number(last_match(rf"^\s*{re.escape(source)}\s*{FLOAT}", text, f"'{source}'").group(1))


def _require(requirement: str, condition: Within | Near, numbers: SimpleNamespace) -> None:
    """Raise FomError if a number does not fulfil its condition; NaN never does."""
    value = getattr(numbers, condition.number)
    correction = ""
    if isinstance(condition, Within):
        holds = condition.least <= value <= condition.most
    else:
        expected = condition.expected(numbers)
        holds = abs(value - expected) <= condition.relative_error * abs(expected)
        correction = f", not {expected:.8g}"
    if not holds:
        raise FomError(f"{condition.number} is {value:.8g}{correction}; required: {requirement}")


def workload_names() -> list[str]:
    """Return the names of all workloads, which are the names of the files that have a record."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [path.stem for path in files if _RECORD.search(path.read_text(encoding="utf-8"))]


def load_workload(name: str) -> Workload:
    """Return the record of a workload; imports ReFrame. Raises InputError for an unknown name."""
    if name not in workload_names():
        raise InputError(f"workload: {name} found; allowed: {', '.join(workload_names())}")
    record: Workload = import_module(f"{__package__}.{name}").WORKLOAD
    return record


# Helpers for functions that read numbers.


def number(text: str) -> float:
    """Return a number that C, C++ or Fortran printed. Raises ValueError for another text."""
    ungrouped = text.replace(",", "") if _GROUPED.fullmatch(text) else text
    return float(ungrouped.replace("d", "e").replace("D", "e"))


def last_match(pattern: str, text: str, name: str) -> re.Match[str]:
    """Return the last match of `pattern`. Raises FomError with `name` if there is none."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if not matches:
        raise FomError(f"the output has no {name}")
    return matches[-1]


def optional_number(pattern: str) -> Callable[[str], float]:
    """Return a function that reads the number in the first group of the pattern's first match.

    Without a match, it is NaN, which is not recorded.
    """

    def read(text: str) -> float:
        match = re.search(pattern, text, re.MULTILINE)
        return float(match[1]) if match else math.nan

    return read


def match_count(pattern: str) -> Callable[[str], float]:
    """Return a function that counts the matches of a pattern."""
    return lambda text: float(len(re.findall(pattern, text, re.MULTILINE)))


def require_positive(name: str, value: float) -> float:
    """Return `value`. Raises FomError if it is not a positive number."""
    if not 0 < value < math.inf:  # refuses NaN, too
        raise FomError(f"{name} is {value:g}")
    return value
