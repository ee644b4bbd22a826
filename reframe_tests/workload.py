"""The record of a workload besides its check: how its output is read, as data.

`reframe_tests/NAME.py` holds the check NAME and a record `WORKLOAD`: the numbers of its output, its
figure of merit, and what proves its result. Standard library only: the conductor of checks without
a record imports this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from conductor.block.readers import Fom, FomError
from records.errors import InputError
from records.last_words import unlabelled
from records.sample import Better

__all__ = ["FLOAT", "Fom", "FomError"]

#: A number as C, C++ and Fortran print it.
FLOAT = r"([-+]?(?:[0-9.]+(?:[eEdD][-+]?\d+)?|nan|NaN|inf|Infinity))"
#: A line of UCX's log. It goes to standard output, where it may stand amid a line of another rank.
_UCX_LOG = re.compile(r"\[\d+\.\d{6}\] \[\S+?:\d+:\d+\][^\n]*? UCX {1,2}[A-Z]+[^\n]*\n?")
_RECORD = re.compile(r"^WORKLOAD = ", re.MULTILINE)

#: Where a number is: after a label that starts a line, in the group of a pattern, or as a function
#: reads it. The last one counts.
Place = str | re.Pattern[str] | Callable[[str], float]


class Within(NamedTuple):
    """A number that must lie between two limits."""

    number: str
    least: float
    most: float


class Near(NamedTuple):
    """A number that must be what the others imply, within a relative error."""

    number: str
    expected: Callable[[Any], float]
    relative: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload: its figure of merit, and what proves its result correct."""

    title: str
    #: The figure of merit in words, its SI unit, and whether lower or higher is better.
    fom: str
    unit: str
    better: Better
    #: The number that is the figure of merit.
    figure: str
    #: Name -> where the number is in the output; names end in their SI unit.
    numbers: Mapping[str, Place]
    #: In words -> a pattern that the output must match, or what must hold of a number.
    proof: Mapping[str, str | Within | Near]
    #: Name -> what follows from the numbers, which are its attributes; in this order.
    derived: Mapping[str, Callable[[Any], float]] = field(default_factory=dict)
    #: Names of numbers that are recorded as well.
    extra: tuple[str, ...] = ()
    #: Pattern of the program's own message of a failure.
    error: str = ""

    @property
    def sanity(self) -> str:
        """Return what is required before the figure is accepted."""
        return "; ".join(self.proof)

    def parse(self, stdout: str) -> Fom:
        """The figure of merit, a positive number; raises only `FomError`, for any output."""
        text = _UCX_LOG.sub("", unlabelled(stdout))
        try:
            fom = self.read(text)
        except (ValueError, ArithmeticError, LookupError) as error:
            raise FomError(f"the output cannot be read: {error}") from None
        require_positive(f"the {self.fom}", fom.value)
        return fom

    def read(self, text: str) -> Fom:
        """The same, as it is read; raises ValueError and the like for what is no number."""
        if self.error and (error := re.search(self.error, text, re.MULTILINE)):
            raise FomError(" ".join(error.group().split()))
        for words, line in self.proof.items():
            if isinstance(line, str) and not re.search(line, text, re.MULTILINE):
                raise FomError(f"the output does not show: {words}")
        values = SimpleNamespace()
        for name, source in self.numbers.items():
            setattr(values, name, _number(name, source, text))
        for name, function in self.derived.items():
            setattr(values, name, function(values))
        for words, limits in self.proof.items():
            _require(words, limits, values)
        extra = {name: float(getattr(values, name)) for name in self.extra}
        return Fom(
            getattr(values, self.figure),
            {name: value for name, value in extra.items() if math.isfinite(value)},
        )


def _number(name: str, source: Place, text: str) -> float:
    if callable(source):
        return source(text)
    if isinstance(source, re.Pattern):
        return number(last_match(source.pattern, text, name).group(1))
    return number(last_match(rf"^\s*{re.escape(source)}\s*{FLOAT}", text, f"'{source}'").group(1))


def _require(words: str, limits: str | Within | Near, values: SimpleNamespace) -> None:
    if isinstance(limits, str):
        return
    value = getattr(values, limits.number)
    if isinstance(limits, Within):
        holds, expected = limits.least <= value <= limits.most, ""  # NaN does not
    else:
        right = limits.expected(values)
        holds = abs(value - right) <= limits.relative * abs(right)
        expected = f", not {right:.8g}"
    if not holds:
        raise FomError(f"{limits.number} is {value:.8g}{expected}; required: {words}")


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


# Helpers for functions that read numbers.


def number(text: str) -> float:
    """A number as one of the languages prints it."""
    return float(text.replace(",", "").replace("d", "e").replace("D", "e"))


def last_match(pattern: str, text: str, name: str) -> re.Match[str]:
    """The last match of `pattern`; raises FomError naming `name` if there is none."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if not matches:
        raise FomError(f"the output has no {name}")
    return matches[-1]


def if_printed(pattern: str) -> Callable[[str], float]:
    """The number in the first group; NaN, which is not recorded, if nothing matches."""

    def read(text: str) -> float:
        match = re.search(pattern, text, re.MULTILINE)
        return float(match[1]) if match else math.nan

    return read


def count(pattern: str) -> Callable[[str], float]:
    """Return how often a pattern matches."""
    return lambda text: float(len(re.findall(pattern, text, re.MULTILINE)))


def require_positive(name: str, value: float) -> float:
    """`value`; raises FomError if it is not a positive number."""
    if not 0 < value < float("inf"):  # also refuses NaN
        raise FomError(f"{name} is {value:g}")
    return value
