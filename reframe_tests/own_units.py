"""Units as checks of others write them (`MBytes/sec`, `Gflops/seconds`), in SI. Pure functions."""

from __future__ import annotations

import re

from analysis import units

_FLOP_PER_SECOND = {"flop/s": 1.0, "kflop/s": 1e3, "Mflop/s": 1e6, "Gflop/s": 1e9, "Tflop/s": 1e12}
#: How units are spelled, and how they are here.
_SPELLINGS = (
    (re.compile(r"\b([munµ]?)(?:seconds?|secs?)\b"), r"\1s"),
    (re.compile(r"\bµs\b"), "us"),
    (re.compile(r"\b([kMGT]i?)?[Bb]ytes?\b"), r"\1B"),
    (re.compile(r"\b([kMGT]?)(?:flops?|FLOPS?|Flops?)/s\b"), r"\1flop/s"),
)
_SUFFIXES = {"s": "_s", "B": "_b", "B/s": "_b_s", "flop/s": "_flop_s"}


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
