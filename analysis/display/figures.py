"""Figures as text: prefixes, digits and signs."""

from __future__ import annotations

import math

#: Text that is shown if there is no figure.
NO_FIGURE = "-"
#: Times below this, such as the time of a load from memory, are shown in nanoseconds.
_NANOSECONDS_BELOW_S = 1e-5
#: Smallest figure that becomes 1000 if it is rounded to four digits, so it gets the next prefix.
_MIN_FOR_NEXT_PREFIX = 999.95
#: Largest change that is shown in per cent. A larger one is shown as a ratio, since a ratio of 5.28
#: would be `+428 %`, and its inverse `-81 %`.
_MAX_PERCENT_CHANGE = 0.5
#: Unit -> the prefixes that it may have, each 1000 times the one before.
_PREFIXES = {"B/s": "kMGTP", "B": "kMGTP", "1/s": "kMGTP", "Hz": "kMGTP", "J": "kMGTP"}


def divisor_and_unit(value: float | None, unit: str) -> tuple[float, str]:
    """Divisor and unit for figures near `value`: (1e9, 'GB/s') for 14e9 'B/s'.

    Prefixes are powers of 1000. Times are in seconds, but very short times are in nanoseconds. A
    unit that has no known prefixes is unchanged.
    """
    if unit == "s" and value and abs(value) < _NANOSECONDS_BELOW_S:
        return 1e-9, "ns"
    divisor, prefix = 1.0, ""
    for name in _PREFIXES.get(unit, ""):
        if value is None or not math.isfinite(value) or abs(value) < divisor * _MIN_FOR_NEXT_PREFIX:
            break
        divisor, prefix = divisor * 1000, name
    return divisor, prefix + (unit.removeprefix("1") if prefix else unit)


def number(value: float | None, digits: int = 4) -> str:
    """`value` with `digits` significant digits, without exponent: 14.20, 372.0, 0.003170."""
    if value is None:
        return NO_FIGURE
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # rounded: 9.99996 has 1
    return f"{value:.{max(digits - 1 - exponent, 0)}f}"


def quantity(value: float | None, unit: str, digits: int = 4) -> str:
    """A figure with its unit: `14.20 GB/s`."""
    divisor, scaled_unit = divisor_and_unit(value, unit)
    return NO_FIGURE if value is None else f"{number(value / divisor, digits)} {scaled_unit}"


def signed_text(value: float, decimals: int = 0) -> str:
    """A change with its sign, such as `+0.3`, and a true minus sign. A rounded 0 has no sign."""
    text = f"{value:+.{decimals}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "\u2212")


def relative_change_text(ratio: float) -> str:
    """A ratio as a change, such as `+12.3 %` or `0.0 %`; beyond 50 % as `0.41 times`."""
    if abs(ratio - 1) > _MAX_PERCENT_CHANGE:
        return f"{ratio:.2f} times"
    return f"{signed_text((ratio - 1) * 100, 1)} %"
