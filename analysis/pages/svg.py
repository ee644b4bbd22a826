"""Small figures as SVG text, in the page's colours, for pages that have hundreds of them.

Thousands of points are one path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

Values = NDArray[np.float64]

_LEFT, _RIGHT, _TOP = 46.0, 10.0, 14.0
#: Width of the name of a month, or of a year.
_LABEL = 26.0
#: Points further from the middle half than this many times its width are drawn at the edge.
_FAR = 4.0


@dataclass(frozen=True)
class Mark:
    """A change of level, seen from the page: worse, better, or how runs were made."""

    day: date
    kind: str
    text: str


@dataclass(frozen=True)
class NightsFigure:
    """The values of one series: a point per night, intervals where there are any (else NaN)."""

    days: Sequence[date]
    values: Values
    low: Values
    high: Values
    #: CSS variable of the points.
    colour: str
    #: What the figure shows, for readers who do not see it.
    alt: str
    #: Reference level; None while there is none.
    level: float | None = None
    marks: Sequence[Mark] = field(default_factory=list)


@dataclass(frozen=True)
class _Axis:
    """Values from `low` to `high` at places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, values: Values) -> Values:
        share = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def one(self, value: float) -> float:
        return float(self.at(np.array([value]))[0])


def nights_svg(figure: NightsFigure, first: date, last: date) -> Markup:
    """The figure over the days from `first` to `last`, the same for all of a page."""
    width, height = 360.0, 130.0
    bottom = height - 20
    x = _Axis(first.toordinal(), last.toordinal() + 1, _LEFT, width - _RIGHT)
    y = _Axis(*_span(figure), bottom, _TOP)
    days = np.array([day.toordinal() + 0.5 for day in figure.days])
    across = x.at(days)
    parts = [
        *_values_axis(y, width),
        *_days_axis(first, last, x, bottom),
        *_marks(figure.marks, x, bottom),
    ]
    if figure.level is not None:
        end = width - _RIGHT
        parts.append(f'<path class="level" d="M{_LEFT} {y.one(figure.level):.1f}H{end}"/>')
    whole = ~np.isnan(figure.low) & ~np.isnan(figure.high)
    ends = zip(across[whole], y.at(figure.low[whole]), y.at(figure.high[whole]), strict=True)
    bars = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in ends)
    far = (figure.values < y.low) | (figure.values > y.high)
    up = y.at(figure.values)
    # Lines of no length with round ends; crosses.
    dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(across[~far], up[~far], strict=True))
    crosses = "".join(
        f"M{a - 2:.1f} {b - 2:.1f}l4 4m0-4l-4 4" for a, b in zip(across[far], up[far], strict=True)
    )
    parts += [
        f'<path class="{name}" stroke="var(--{figure.colour})" d="{shape}"/>'
        for name, shape in (("bars", bars), ("dots", dots), ("far", crosses))
    ]
    return _svg(parts, width, height, figure.alt)


@dataclass(frozen=True)
class Bar:
    """One row of `bars_svg`: a value with its interval."""

    label: str
    value: float
    low: float
    high: float
    colour: str = "on"


def bars_svg(bars: Sequence[Bar], alt: str, unit: str) -> Markup:
    """Values with their intervals, one row each, and a line at 1."""
    width, row = 360.0, 18.0
    bottom = _TOP + row * len(bars)
    left = 146.0
    ends = [end for bar in bars for end in (bar.low, bar.high)]
    room = 0.04 * (max(*ends, 1.0) - min(*ends, 1.0) or 1.0)
    x = _Axis(min(*ends, 1.0) - room, max(*ends, 1.0) + room, left, width - _RIGHT)
    parts = [f'<path class="axis" d="M{x.one(1):.1f} {_TOP}V{bottom}"/>']
    for tick in _ticks(x.low, x.high):
        parts.append(f'<path class="grid" d="M{x.one(tick):.1f} {_TOP}V{bottom}"/>')
        parts.append(_text(x.one(tick), bottom + 13, f"{tick:g}", "middle"))
    for line, bar in enumerate(bars):
        y = _TOP + row * (line + 0.5)
        low, value, high = (x.one(each) for each in (bar.low, bar.value, bar.high))
        shown = bar.label if len(bar.label) <= 22 else bar.label[:21] + "\u2026"
        parts += [
            _text(left - 6, y + 3.5, shown, "end"),
            f'<path class="bar" stroke="var(--{bar.colour})" d="M{low:.1f} {y}H{high:.1f}"/>',
            f'<path class="value" d="M{value:.1f} {y - 5}v10"/>',
        ]
    parts.append(_text((left + width - _RIGHT) / 2, bottom + 27, unit, "middle"))
    return _svg(parts, width, bottom + 32, alt)


def _svg(parts: Sequence[str], width: float, height: float, alt: str) -> Markup:
    head = f'<svg role="img" viewBox="0 0 {width:g} {height:g}" aria-label="{escape(alt)}">'
    return Markup(head + "".join(parts) + "</svg>")


def _span(figure: NightsFigure) -> tuple[float, float]:
    """The values to draw: all but those far out, with some room."""
    low, middle, high = np.percentile(figure.values, [25, 50, 75])
    reach = _FAR * (high - low) or np.ptp(figure.values) or abs(middle) * 0.01 or 1.0
    drawn = np.append(figure.values, figure.values if figure.level is None else figure.level)
    bottom, top = max(drawn.min(), low - reach), min(drawn.max(), high + reach)
    room = 0.08 * (top - bottom) or reach
    return float(bottom - room), float(top + room)


def _values_axis(y: _Axis, width: float) -> Iterator[str]:
    for tick in _ticks(y.low, y.high):
        at = y.one(tick)
        yield f'<path class="grid" d="M{_LEFT} {at:.1f}H{width - _RIGHT}"/>'
        yield _text(_LEFT - 4, at + 3.5, f"{tick:.6g}", "end")


def _days_axis(first: date, last: date, x: _Axis, bottom: float) -> Iterator[str]:
    """Up to six months by name, or years: January is the year."""
    numbers = range(12 * first.year + first.month - 1, 12 * last.year + last.month)
    months = [day for each in numbers if (day := date(each // 12, each % 12 + 1, 1)) >= first]
    years = math.ceil(len(months) / 72)
    step = next(each for each in (1, 2, 3, 6, 12 * years) if len(months) <= 6 * each)
    for day in [day for day in months if (12 * day.year + day.month - 1) % step == 0] or [first]:
        at = x.one(day.toordinal())
        yield f'<path class="grid" d="M{at:.1f} {bottom}v4"/>'
        shown = f"{day:%b}" if day.month > 1 else f"{day:%Y}"
        anchor = "start" if at + _LABEL < x.end + _RIGHT else "end"
        yield _text(at, bottom + 15, shown if months else day.isoformat(), anchor)


def _marks(marks: Sequence[Mark], x: _Axis, bottom: float) -> Iterator[str]:
    for mark in marks:
        at = x.one(mark.day.toordinal())
        shape = f"M{at:.1f} {bottom}l-3 5h6z" if mark.kind == "made" else f"M{at:.1f} 4V{bottom}"
        text = f"<title>{escape(mark.text)}</title>"
        yield f'<path class="mark {mark.kind}" d="{shape}">{text}</path>'


def _ticks(low: float, high: float) -> list[float]:
    """Two to five round values."""
    most = (high - low) / 2
    size = 10.0 ** math.floor(math.log10(most))
    # The logarithm of a number just below a power of ten is rounded up.
    step = max((size * each for each in (1, 2, 5) if size * each <= most), default=size)
    return [each * step for each in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
