"""Units: quantities as text (`64KiB`, `1GB/s`, `5y`, `46k`), and their values in SI units.

A quantity is read strictly: the unit follows the number without a space and is spelled exactly as
in the tables below. Ambiguous units (`5m`, `64K`, `1Gb/s`) are errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from records.errors import InputError

#: A year is 365.25 days.
SECONDS: dict[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "y": 365.25 * 86400.0,
}
BYTES: dict[str, float] = {
    "B": 1.0,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
BYTES_PER_SECOND: dict[str, float] = {f"{unit}/s": size for unit, size in BYTES.items()} | {
    f"{prefix}bit/s": factor / 8
    for prefix, factor in (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9))
}
COUNT: dict[str, float] = {"": 1.0, "k": 1e3, "M": 1e6}

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z/]*)", re.ASCII)


def duration_s(text: str, field: str) -> float:
    """`5y`, `1s`, `250ms` as seconds. Raises InputError, which names `field`."""
    return _read(text, field, SECONDS, "a duration", "30s")


def size_b(text: str, field: str) -> int:
    """`64KiB`, `1MB` as a whole number of bytes. Raises InputError, which names `field`."""
    return _whole(_read(text, field, BYTES, "a size", "64KiB"), text, field, "bytes")


def rate_b_s(text: str, field: str) -> float:
    """`3.2GB/s`, `32Gbit/s` as bytes per second. Raises InputError, which names `field`."""
    return _read(text, field, BYTES_PER_SECOND, "a rate", "500MB/s")


def count(text: str, field: str) -> int:
    """`46k`, `64` as a whole number. Raises InputError, which names `field`."""
    return _whole(_read(text, field, COUNT, "a count", "46k"), text, field, "items")


def fraction(value: Any) -> Any:
    """`2%` as 0.02. Any other value is returned unchanged; the caller must check it."""
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?%", value, re.ASCII):
        return float(value[:-1]) / 100
    return value


def share(text: str, field: str) -> float:
    """`50%` as 0.5. Raises InputError, which names `field`, for another text and for 0."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%", text, re.ASCII)
    if match is None or not 0 < float(match[1]) < math.inf:
        fault = f"{text!r} is not a share above 0"
        raise InputError(f"{field}: {fault}; allowed: a percentage, such as 50%")
    return float(match[1]) / 100


_FLOP_PER_SECOND = {f"{prefix}flop/s": 1e3**power for power, prefix in enumerate(["", *"kMGT"])}
#: Pattern of a unit as programs spell it, and the spelling here.
_SPELLINGS = (
    (re.compile(r"\b([munµ]?)(?:seconds?|secs?)\b"), r"\1s"),
    (re.compile(r"\bµs\b"), "us"),
    (re.compile(r"\b([kMGT]i?)?[Bb]ytes?\b"), r"\1B"),
    (re.compile(r"\b([kMGT]?)(?:flops?|FLOPS?|Flops?)/s\b"), r"\1flop/s"),
)


def si_factor(unit: str) -> tuple[float, str]:
    """Factor and SI unit for a unit as a program spells it; an unknown unit is not converted."""
    for pattern, spelling in _SPELLINGS:
        unit = pattern.sub(spelling, unit)
    for factors, si_unit in (
        (SECONDS, "s"),
        (BYTES_PER_SECOND, "B/s"),
        (BYTES, "B"),
        (_FLOP_PER_SECOND, "flop/s"),
    ):
        if unit in factors:
            return factors[unit], si_unit
    return 1.0, unit


def _read(text: str, field: str, units: Mapping[str, float], quantity: str, example: str) -> float:
    """The value of a text in SI units; `quantity` and `example` are for the error's message."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        allowed = " ".join(unit or "(none)" for unit in units)
        raise InputError(
            f"{field}: {text!r} is not {quantity}; write a number and one of {allowed}, "
            f"such as {example}"
        )
    value = float(match[1]) * units[match[2]]
    if math.isinf(value):
        raise InputError(f"{field}: '{text[:20]}...' is too large")
    return value


def _whole(value: float, text: str, field: str, items: str) -> int:
    # 1.1kB is not exact in binary, so a difference of one part in 10^12 is a rounding error.
    if not math.isclose(value, round(value), rel_tol=1e-12, abs_tol=0.0):
        raise InputError(f"{field}: {text!r} is not a whole number of {items}")
    return round(value)


# Texts of figures, for all folders. `analysis.display.figures` has more of them.


def percentage(share: float, number_format: str = ".0f") -> str:
    """A share as people read it, with a space as in SI: 0.25 is `25 %`.

    A level of a campaign is spelled without the space: `25%`. A large share has no exponent: with
    two digits, 1.57 is `160 %`.
    """
    digits = f"{100 * share:{number_format}}"
    return f"{float(digits):.0f} %" if "e+" in digits else f"{digits} %"


class _ShareFormatter(Formatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        """The value as text; for a format that ends with `%`, a percentage."""
        if format_spec.endswith("%"):
            number_format = format_spec[:-1]
            return percentage(value, number_format + "f" * (not number_format.endswith("g")))
        return super().format_field(value, format_spec)


def filled(template: str, values: Mapping[str, Any]) -> str:
    """A template with its values filled in. `{share:.0%}` in it gives a percentage.

    `{share:.3g%}` gives a percentage with three significant digits.
    """
    return _ShareFormatter().vformat(template, (), values)


def distinguishable(
    value: float, limit: float, digits: int, figure_text: Callable[[float, str], str] = format
) -> tuple[str, str]:
    """Both numbers as text, with up to three more digits if they would look equal otherwise.

    `figure_text` is the function that makes the texts; for shares it is `percentage`.
    """
    for decimals in range(digits, digits + 4):
        value_text = figure_text(value, f".{decimals}f")
        limit_text = figure_text(limit, f".{decimals}f")
        if value_text != limit_text:
            return value_text, limit_text
    return figure_text(value, f".{digits}f"), figure_text(limit, f".{digits}f")


def plural(count: int, noun: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
