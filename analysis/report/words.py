"""Texts for rows, figures, notes and moments, which several sections of the report use."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from analysis.display import figures
from analysis.effects.result import Result
from analysis.effects.statements import level_value
from analysis.statistics.interval import Estimate, Interval, ends_text
from records.arms import arm_and_levels, arm_of
from records.groups import grouped
from records.notes import merged_concurrent_runs, remedy_of
from records.units import SECONDS, percentage

#: Maximum number of other runs that a note names.
_MAX_NAMED_RUNS = 3
#: Written between the ends of an interval, and instead of an unknown value.
DASH = "\u2013"


def ratio_texts(
    estimate: Estimate | None, next_allocation: Interval | None = None
) -> dict[str, str]:
    """A ratio and its interval as texts, for templates.

    `interval` is the interval of the next allocation, if there is one. Then `measured_interval` is
    the interval of the allocations measured. Otherwise `interval` is the estimate's interval.
    """
    if estimate is None:
        return {"value": DASH, "interval": "", "measured_interval": ""}
    leading = ends_text(next_allocation or estimate).replace("-", DASH)
    measured = f"these: {ends_text(estimate).replace('-', DASH)}" if next_allocation else ""
    return {"value": f"{estimate.value:.3f}", "interval": leading, "measured_interval": measured}


def fom_text(value: float | None, row: Result) -> str:
    """A figure of merit in the unit that suits the row's baseline median, or else the other one."""
    divisor, unit = figures.divisor_and_unit(row.off_median or row.on_median, row.unit)
    return DASH if value is None else f"{figures.number(value / divisor)} {unit}"


def with_remedy(note: str, reword: Callable[[str], str] = str) -> str:
    """A note and, if `records.notes` has one, its remedy.

    The note may begin with the names of rows. `reword` rewrites note and remedy so that they fit
    the command that was typed.
    """
    _, _, note_after_rows = note.partition(": ")
    remedy = reword(remedy_of(note) or remedy_of(note_after_rows) or "")
    note = reword(note)
    return f"{note}. {remedy[0].upper()}{remedy[1:]}." if remedy else note


def notes_of(rows: Sequence[Result]) -> list[str]:
    """The distinct notes of a case's rows. A note names its rows unless all rows have it."""
    merged = merged_concurrent_runs((note for row in rows for note in row.notes), _MAX_NAMED_RUNS)
    arms_by_note = grouped(
        (note, row.arm) for row in rows for note in dict.fromkeys(map(merged, row.notes))
    )
    return [
        note if len(arms) == len(rows) else f"{', '.join(arms)}: {note}"
        for note, arms in arms_by_note.items()
    ]


def case_and_arm(row: Result) -> str:
    """The case, with the treatment if it is not `on`."""
    return row.case if row.arm == "on" else f"{row.case} {row.arm}"


def changed_factors(treatments: Iterable[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
    """Case and treatment -> the factors that are not at their first levels.

    Names of treatments leave out first levels, but of rates they leave out `full`. If no effect of
    a case has the full rate, its highest rate takes the place of the first level.
    """
    levels = {(case, name): arm_and_levels(name).levels for case, name in treatments}
    rates = grouped(
        (case, named.get("rate", "full"))
        for (case, name), named in levels.items()
        if not arm_of(name).silent
    )
    highest = {case: max(names, key=_rate_value) for case, names in rates.items()}
    return {
        (case, name): named.keys() - ({"rate"} if named.get("rate") == highest.get(case) else set())
        for (case, name), named in levels.items()
    }


def _rate_value(name: str) -> float:
    """A rate as a number, from its name in a treatment, in which `/` is `_`."""
    return level_value(name.replace("_", "/"))


def breakable_name(treatment: str) -> Markup:
    """A treatment's name as HTML, with a possible line break before each level."""
    return Markup("<wbr>").join(re.split(r"(?=@)|(?<=,)", treatment))


def unbroken_dates(text: object) -> Markup:
    """A text as HTML whose dates do not break at their hyphens."""
    unbroken = r'<span class="nowrap">\g<0></span>'
    return Markup(re.sub(r"\b\d{4}-\d\d-\d\d\b", unbroken, str(escape(text))))


def with_code(text: object) -> Markup:
    """A sentence as HTML: commands between backticks are code, and dates do not break."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(unbroken_dates(text))))


#: Largest frame of a network.
_MAX_FRAME_B = 10_000
_HALF_KIB_B = 512


def size_text(value: float) -> str:
    """A size in powers of 1024, such as `64 KiB`.

    A size below `_MAX_FRAME_B` is assumed to be the size of a network frame and shown in bytes,
    unless it is a multiple of 0.5 KiB.
    """
    if value < _MAX_FRAME_B and value % _HALF_KIB_B:
        return f"{value:.5g} B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def duration_text(value_s: float) -> str:
    """A duration in years from one year on, in days from one day on, and otherwise in seconds."""
    for unit in ("y", "d"):
        if value_s >= SECONDS[unit]:
            return f"{value_s / SECONDS[unit]:.4g} {unit}"
    return f"{value_s:.4g} s"


class TrafficWords(NamedTuple):
    """The words for traffic in one direction."""

    #: `writes`, for example.
    noun: str
    #: What is done with bytes: they are `written into` a node's memory, for example.
    participle: str


_WORDS_FOR_WRITES = TrafficWords("writes", "written into")
#: Direction -> its words. All other directions have the words for writes.
_TRAFFIC_WORDS = {
    "read": TrafficWords("reads", "read from"),
    "both": TrafficWords("writes and reads", "written into, and as many read from,"),
    "receive": TrafficWords("messages", "received by"),
}


def traffic_words(direction: str | None) -> TrafficWords:
    """Return the words for the traffic of writers in a direction; None means writes."""
    return _TRAFFIC_WORDS.get(direction or "", _WORDS_FOR_WRITES)


def range_text(interval: Estimate | Interval) -> str:
    """The ends of an interval of ratios as changes of time: `2.0 % less to 12.5 % more`."""
    return f"{change_text(interval.low)} to {change_text(interval.high)}"


def change_text(ratio: float) -> str:
    """A ratio as a change of time: `12.5 % more`."""
    return f"{percentage(abs(ratio - 1), '.1f')} {'more' if ratio >= 1 else 'less'}"


def utc_text(moment_s: float | None) -> str:
    """A moment (Unix time) as a date and time in UTC."""
    if moment_s is None:
        return "not finished"
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(moment_s))
    except (OverflowError, ValueError):
        return f"{moment_s:g} is not a date"
