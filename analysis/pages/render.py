"""Renders the pages from what is known of the machines. Pure."""

from __future__ import annotations

import calendar
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

import polars as pl
from markupsafe import Markup

from analysis.effects.verdict import MEANING
from analysis.history.alarms import Alarm, SeriesWatch
from analysis.history.monitor import WITHIN_NIGHTS
from analysis.history.series import latest_kind
from analysis.history.tables import COUNTER, KEY
from analysis.pages import across
from analysis.pages.data import (
    RECORDED,
    FactChange,
    MachineHistory,
    PageNight,
    calendar_nights,
    fact_changes,
    open_alarms,
)
from analysis.pages.svg import Bar, Mark, NightsFigure, bars_svg, nights_svg
from analysis.report.plots import drawing, light, logarithmic, themed_svg
from analysis.report.shell import View, render_page
from analysis.report.words import utc
from analysis.statistics.means import middle
from nimc.base import units
from nimc.base.groups import grouped

#: Quantity -> its name on the page, and the CSS variable of its points.
_QUANTITIES = {
    "fom": ("figure of merit", "off"),
    "slowdown": ("slowdown", "on"),
    "writer_rate": ("rate of the writers", "level2"),
}
_COUNTER_COLOUR = "level3"
SeriesKey = tuple[str, str, str, str]


def case_views(history: MachineHistory, made: Sequence[FactChange]) -> list[View]:
    """The cases of the machine by name: each with its series, and how many have an open alarm."""
    if history.nights.is_empty():
        return []
    first, last = (date.fromisoformat(str(history.nights["night"].sort()[at])) for at in (0, -1))
    watches = {each.key: each for each in history.watches}
    alarms = {each.key for each in open_alarms(history)}
    marks = _fact_marks(made)

    def view(key: SeriesKey, rows: pl.DataFrame) -> View:
        watch = watches.get(key)
        figure = _figure(key, rows, watch, marks.get(key[0], []))
        return _view(key, rows, watch, nights_svg(figure, first, last), key in alarms)

    of_case = grouped((key[:2], view(key, rows)) for key, rows in _parts(history.nights))
    return [
        View(campaign=campaign, case=case, series=series, alarms=sum(s.alarm for s in series))
        for (campaign, case), series in sorted(of_case.items())
    ]


def quantity_name(quantity: str) -> str:
    """A quantity as the pages show it."""
    return _QUANTITIES[quantity][0] if quantity in _QUANTITIES else quantity.removeprefix(COUNTER)


def _parts(nights: pl.DataFrame) -> Iterator[tuple[SeriesKey, pl.DataFrame]]:
    """The rows of each series with a value in its present unit, in order of time."""
    rows = latest_kind(nights.filter(pl.col("value").is_finite())).sort("started_s")
    parts = rows.partition_by(*KEY, as_dict=True, maintain_order=True)
    order = [*_QUANTITIES]
    for names in sorted(parts, key=lambda key: (*key[:2], _place(str(key[3]), order), *key[2:])):
        campaign, case, arm, quantity = map(str, names)
        yield (campaign, case, arm, quantity), parts[names]


def _place(quantity: str, order: Sequence[str]) -> int:
    return order.index(quantity) if quantity in order else len(order)


def _figure(
    key: SeriesKey, rows: pl.DataFrame, watch: SeriesWatch | None, made: Sequence[Mark]
) -> NightsFigure:
    factor, _ = _scale(rows)
    values = {
        name: rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() / factor
        for name in ("value", "low", "high")
    }
    level = watch.level / factor if watch and watch.level is not None else None
    changes = _changes(watch)
    return NightsFigure(
        days=rows["night"].to_list(),
        values=values["value"],
        low=values["low"],
        high=values["high"],
        colour=_QUANTITIES.get(key[3], ("", _COUNTER_COLOUR))[1],
        alt=_alt(key, rows, watch, changes),
        level=level,
        marks=[*made, *changes],
    )


def _scale(rows: pl.DataFrame) -> tuple[float, str]:
    factor, unit = units.scale(middle(rows["value"]), str(rows["unit"][-1]))
    return factor, "" if unit == "1" else unit


def _changes(watch: SeriesWatch | None) -> list[Mark]:
    """Changes of level that the watch found."""
    return [
        Mark(
            date.fromisoformat(each.since),
            "worse" if each.worse else "better",
            f"{_percent(each.ratio)} since {each.since}",
        )
        for each in (watch.changes if watch else [])
    ]


def _fact_marks(made: Sequence[FactChange]) -> dict[str, list[Mark]]:
    found: dict[str, dict[str, list[str]]] = {}
    for each in made:
        found.setdefault(each.campaign, {}).setdefault(each.night, []).append(each.name)
    return {
        campaign: [
            Mark(date.fromisoformat(night), "made", f"{night}: {', '.join(names)} changed")
            for night, names in nights.items()
        ]
        for campaign, nights in found.items()
    }


def _alt(
    key: SeriesKey, rows: pl.DataFrame, watch: SeriesWatch | None, changes: Sequence[Mark]
) -> str:
    latest = _shown(rows["value"][-1], rows)
    text = (
        f"{key[1]} {key[2]}, {quantity_name(key[3])}: "
        f"{units.plural(rows['night'].n_unique(), 'night')}, the last one {latest} on "
        f"{rows['night'][-1]}"
    )
    if watch and watch.level is not None:
        text += f", {_against(rows, watch.level)} than the reference of {_shown(watch.level, rows)}"
    found = "; ".join(mark.text for mark in changes) or "none"
    return f"{text}. Changes of level: {found}."


def _shown(value: float, rows: pl.DataFrame) -> str:
    factor, unit = _scale(rows)
    return f"{units.number(value / factor)} {unit}".rstrip()


def _against(rows: pl.DataFrame, level: float) -> str:
    """The last value against a level: `2.1 % worse`."""
    ratio = rows["value"][-1] / level
    return _percent(ratio if rows["better"][-1] == "lower" else 1 / ratio)


def _percent(ratio: float) -> str:
    """A ratio of times in words: `2.1 % worse`."""
    return f"{abs(ratio - 1) * 100:.1f} % {'worse' if ratio >= 1 else 'better'}"


def _view(
    key: SeriesKey, rows: pl.DataFrame, watch: SeriesWatch | None, svg: Markup, alarm: bool
) -> View:
    """What the page shows of a series, as text; reference and change are empty without one."""
    last = rows.row(-1, named=True)
    factor, unit = _scale(rows)
    whole = last["low"] is not None and last["high"] is not None
    reference = reference_nights = change = loss = ""
    detectable = "too few nights for a reference"
    if watch and watch.level is not None:
        reference = _shown(watch.level, rows)
        reference_nights = units.plural(watch.baseline_nights or 0, "night")
        change = _against(rows, watch.level)
        loss = f"{watch.detectable * 100:.1f} %" if watch.detectable is not None else "none"
        found = "no loss" if loss == "none" else f"a loss of {loss}"
        detectable = f"{found} is found within {WITHIN_NIGHTS} nights"
    ends = (last["low"], last["high"]) if whole else ()
    return View(
        arm=key[2],
        quantity=quantity_name(key[3]),
        unit=unit,
        svg=svg,
        night=str(last["night"]),
        latest=_shown(last["value"], rows),
        interval=" to ".join(units.number(end / factor) for end in ends),
        verdict=last["verdict"] or "",
        reference=reference,
        reference_nights=reference_nights,
        loss=loss,
        change=change,
        detectable=detectable,
        alarm=alarm,
    )


# The calendar of nights: months of weeks, each night with how it ended.


#: Outcome -> mark and CSS class; the first one wins where a date has several nights.
OUTCOMES = {
    "slower": ("S", "bad"),
    "machine failed": ("F", "bad"),
    "inconclusive": ("?", "warn"),
    "not run": ("\u2013", "plain"),
    "measured": ("\u2713", "good"),
    RECORDED: ("\u2022", "plain"),
}


def months(nights: Sequence[PageNight]) -> list[View]:
    """The months from the first to the last night, the latest first.

    Each with its name and its weeks from Monday; None is a day of another month.
    """
    if not nights:
        return []
    of_day = grouped((each.night, each) for each in nights)
    first, last = min(of_day), max(of_day)
    starts = [
        date(index // 12, index % 12 + 1, 1)
        for index in range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    ]
    return [_month(start, of_day) for start in reversed(starts)]


def outcome_counts(nights: Sequence[PageNight]) -> dict[str, int]:
    """Outcome -> nights that ended so, in the order of `OUTCOMES`; only those that occur."""
    counts = {name: sum(each.outcome == name for each in nights) for name in OUTCOMES}
    return {name: count for name, count in counts.items() if count}


def _month(start: date, of_day: dict[date, list[PageNight]]) -> View:
    weeks = [
        [_day(day, of_day.get(day, [])) if day.month == start.month else None for day in week]
        for week in calendar.Calendar().monthdatescalendar(start.year, start.month)
    ]
    return View(name=f"{start:%B %Y}", weeks=weeks)


def _day(day: date, nights: Sequence[PageNight]) -> View:
    """Number, and mark with its look and text, which are empty if nothing is known of the night."""
    ended = [each.outcome for each in nights]
    worst = next((name for name in OUTCOMES if name in ended), None)
    mark, look = OUTCOMES[worst] if worst else ("", "")
    text = "; ".join(
        f"{each.campaign}: {each.outcome}" + (f", {each.reason}" if each.reason else "")
        for each in nights
    )
    return View(number=day.day, mark=mark, look=look, text=text)


# The pages.


PACKAGE = "analysis.pages"
#: Most changes of how runs were made that are listed; the data file has all.
_LISTED = 60
#: Outcomes that need no reason.
_MEASURED = ("measured", "recorded")


@dataclass(frozen=True)
class MachineState:
    """A machine in the list of all."""

    machine: str
    #: Address of its page, from the list.
    page: str
    last_night: str
    outcome: str
    #: Nights with a run.
    nights: int
    open_alarms: int
    #: The open alarm with the largest ratio, in words.
    worst: str
    emulated: bool


def state_of(history: MachineHistory) -> MachineState:
    """The machine's line in the list."""
    nights = calendar_nights(history)
    found = sorted(open_alarms(history), key=lambda each: each.ratio, reverse=True)
    return MachineState(
        machine=history.machine,
        page=f"{history.machine}/index.html",
        last_night=nights[-1].night.isoformat() if nights else "",
        outcome=nights[-1].outcome if nights else "",
        nights=len({each.night for each in nights if each.run}),
        open_alarms=len(found),
        worst=_alarm(found[0]) if found else "",
        emulated=bool(history.emulated),
    )


def machine_page(history: MachineHistory) -> str:
    """The page of one machine."""
    made = fact_changes(history.runs)
    nights = calendar_nights(history)
    cases = case_views(history, made)
    latest = history.runs.sort("started_s", descending=True).unique(
        "campaign", keep="first", maintain_order=True
    )
    return render_page(
        PACKAGE,
        f"Nights of {history.machine}",
        {"utc": utc},
        template="machine.html",
        history=history,
        summary=_summary(history, cases),
        alarms=sorted(history.alarms, key=lambda each: each.night, reverse=True),
        latest=latest.iter_rows(named=True),
        cases=cases,
        last_night=max((each.night for case in cases for each in case.series), default=""),
        made=made[::-1],
        shown=_LISTED,
        months=months(nights),
        counts=outcome_counts(nights),
        not_measured=[each for each in reversed(nights) if each.outcome not in _MEASURED],
        outcomes=OUTCOMES,
        meaning=MEANING,
        quantity_name=quantity_name,
        within=WITHIN_NIGHTS,
        span=_span,
    )


def index_page(histories: Sequence[MachineHistory]) -> str:
    """The page over all machines."""
    found = across.side_by_side(histories)
    drawn = {each.machine for each in found.rates}
    return render_page(
        PACKAGE,
        "Memory contention on all machines",
        template="index.html",
        states=[state_of(each) for each in histories],
        ranks=found.ranks,
        slowdowns=_slowdown_figures(found.slowdowns),
        rates_svg=_rates_figure(found.rates),
        rates=found.rates,
        no_rates=[each.machine for each in histories if each.machine not in drawn],
        facts=found.facts,
        triads=found.triads,
        outcomes=OUTCOMES,
        meaning=MEANING,
        quantity=units.quantity,
        signed=units.signed,
        span=_span,
    )


def _summary(history: MachineHistory, cases: Sequence[View]) -> list[str]:
    """The last night, the alarms and what would be found."""
    nights = calendar_nights(history)
    if not nights:
        return ["Nothing is known of any night."]
    last = nights[-1]
    reason = f": {last.reason}" if last.reason else ""
    found = sorted(open_alarms(history), key=lambda each: each.ratio, reverse=True)
    series = [each for case in cases for each in case.series]
    referenced = sum(bool(each.reference) for each in series)
    return [
        f"Last night: {last.night}, {last.outcome}{reason}.",
        f"Open alarms: {_first(list(map(_alarm, found)))}.",
        f"Watched: {len(series)} quantities of "
        f"{units.plural(len(cases), 'case')}, {referenced} of them with nights to compare with.",
    ]


def _first(texts: Sequence[str], most: int = 3) -> str:
    more = f"; {len(texts) - most} more below" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more if texts else "none"


def _alarm(each: Alarm) -> str:
    interval = f" ({_span(*each.interval)})" if each.interval else ""
    return (
        f"{each.case} {each.arm} {quantity_name(each.quantity)}: worse by a factor of"
        f" {each.ratio:.3f}{interval} "
        f"since {each.since}, {each.state}"
    )


def _span(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _slowdown_figures(rows: Sequence[across.MachineSlowdown]) -> list[tuple[str, Markup]]:
    """One figure per case and treatment, its machines from the least slowed down on."""
    figures = []
    for (campaign, case, arm), group in groupby(rows, key=lambda r: (r.campaign, r.case, r.arm)):
        found = list(group)
        bars = [
            Bar(f"{each.machine}{' (emulated)' if each.emulated else ''}", each.value, each.low,
                each.high, "spin" if each.emulated else "on")
            for each in found
        ]  # fmt: skip
        values = "; ".join(
            f"{bar.label} {bar.value:.3f} ({_span(bar.low, bar.high)})" for bar in bars
        )
        name = f"{case} {arm}"
        svg = bars_svg(bars, f"Slowdown of {name} in {campaign}: {values}", "slowdown")
        figures.append((f"{name}, {campaign}", svg))
    return figures


def _rates_figure(rates: Sequence[across.CoreRates]) -> Markup:
    """Machines by number, on logarithmic axes, and the line of equal rates."""
    above = [each.machine for each in rates if each.network_b_s > each.memory_core_b_s]
    alt = (
        f"Network against triad per core of {units.plural(len(rates), 'machine')}. The network "
        f"is faster than one core's share of the memory on {', '.join(above) or 'none'}."
    )
    places = [(each.memory_core_b_s / 1e9, each.network_b_s / 1e9) for each in rates]
    with drawing(3.6) as figure:
        axes = figure.subplots()
        for number, (each, place) in enumerate(zip(rates, places, strict=True), 1):
            look: dict[str, Any] = {"mfc": "none", "mec": light("ink")} if each.published else {}
            axes.plot(*place, "o", color=light("on"), **look)
            axes.annotate(str(number), place, (5, -3), textcoords="offset points", fontsize=8)
        logarithmic(axes, "x", "y")
        ends = [min(map(min, places)), max(map(max, places))]
        axes.plot(ends, ends, color=light("muted"), lw=1)
        axes.set_xlabel("triad per core, GB/s")
        axes.set_ylabel("network, GB/s")
        axes.grid()
        return themed_svg(figure, "rates", alt)
