"""The figure of merit of a check of others: its unit in SI, and its direction. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from analysis import units
from analysis.sample import Better

_FLOP_PER_SECOND = {"flop/s": 1.0, "kflop/s": 1e3, "Mflop/s": 1e6, "Gflop/s": 1e9, "Tflop/s": 1e12}
#: How units are spelled, and how they are here.
_SPELLINGS = (
    (re.compile(r"\b([munµ]?)(?:seconds?|secs?)\b"), r"\1s"),
    (re.compile(r"\bµs\b"), "us"),
    (re.compile(r"\b([kMGT]i?)?[Bb]ytes?\b"), r"\1B"),
    (re.compile(r"\b([kMGT]?)(?:flops?|FLOPS?|Flops?)/s\b"), r"\1flop/s"),
)
_SUFFIXES = {"s": "_s", "B": "_b", "B/s": "_b_s", "flop/s": "_flop_s"}


@dataclass(frozen=True)
class Figure:
    """The performance variable that stands for a check, in SI units."""

    name: str
    unit: str
    better: Better
    #: What values as the check reports them are multiplied by.
    factor: float
    #: What a reader must know of how it was chosen.
    note: str


def direction(reference: tuple[Any, ...] | None, asked: str, unit: str) -> tuple[Better, str]:
    """Which direction is better, and where that is from; raises ValueError where nothing says it.

    `reference` is ReFrame's (value, lower, upper): a bound on one side alone tells the direction.
    """
    if asked:
        return ("lower" if asked == "lower" else "higher"), "as asked"
    if reference is not None and (reference[1] is None) != (reference[2] is None):
        return ("lower" if reference[1] is None else "higher"), "by the check's reference"
    if unit == "s":
        return "lower", "by its unit alone"
    if unit.endswith("/s"):
        return "higher", "by its unit alone"
    raise ValueError


def si(unit: str) -> tuple[float, str]:
    """Factor and SI unit of a unit as checks write it; an unknown one stays as it is."""
    for pattern, spelling in _SPELLINGS:
        unit = pattern.sub(spelling, unit)
    for known, name in (
        (units.SECONDS, "s"),
        (units.BYTES_PER_SECOND, "B/s"),
        (units.BYTES, "B"),
        (_FLOP_PER_SECOND, "flop/s"),
    ):
        if unit in known:
            return known[unit], name
    return 1.0, unit


def suffixed(name: str, unit: str) -> str:
    """A name that ends in its SI unit; one whose unit is not known stays as it is."""
    suffix = _SUFFIXES.get(unit, "")
    return name if name.endswith(suffix) else name + suffix
