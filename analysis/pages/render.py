"""Renders the pages from the histories of the machines. Reads and writes no files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import polars as pl
from markupsafe import Markup

from analysis.display import figures
from analysis.history.alarms import (
    MAX_NIGHTS_BEFORE,
    MIN_NIGHTS_BEFORE,
    RECENT_NIGHTS,
    Alarm,
    WatchedSeries,
)
from analysis.history.nights import SERIES_KEY, latest_rows
from analysis.pages.across import MachineHistory, Row
from analysis.report import plots
from analysis.report.plots import View, light_colour, render_page
from analysis.report.sentences import MEANING
from analysis.report.words import unbroken_dates
from analysis.statistics.interval import Estimate, median_of
from analysis.subjects.paper import paper
from records import units
from records.groups import grouped
from records.units import percentage

PACKAGE = "analysis.pages"
#: Quantity -> its name on the page, and the colour of its points.
_QUANTITIES = {
    "fom": ("figure of merit", "off"),
    "slowdown": ("slowdown", "on"),
    "writer_rate": ("rate of the writers", "level2"),
}
#: Outcome of a night -> CSS class.
_OUTCOME_CLASSES = {
    "slower": "bad",
    "machine failed": "bad",
    "inconclusive": "warn",
    "not run": "warn",
    "measured": "good",
}
#: CSS classes of states, the worst first.
_CLASSES = ("bad", "warn", "plain", "good")
#: Maximum number of nights that are listed.
_MAX_LISTED_NIGHTS = 60


class PageNight(NamedTuple):
    """The outcome of one night, from its summary."""

    night: date
    campaign: str
    outcome: str
    reason: str
    #: Name of the run; empty if no run began.
    run: str


def _badness(night: PageNight) -> int:
    """Return a number that is larger for a worse outcome of a night."""
    return -_CLASSES.index(_OUTCOME_CLASSES[night.outcome])


def machine_state(history: MachineHistory, nights: Sequence[PageNight]) -> Row:
    """The machine's row in the list of all machines.

    In the row, `look` is `bad`, `warn`, `good` or `plain`, and `state` says why. `page` is the
    address of the machine's page, relative to the list. `nights` is the number of measured nights.
    A series has the values of one quantity by night. `series` is the number of all series, and
    `not_watched` is the number of series with too few nights.
    """
    below_reference_texts = [f"{case.case}: {case.text}" for case in history.below_reference]
    alarms = [*below_reference_texts, *(alarm.text for alarm in history.alarms if alarm.open)]
    measured_dates = history.nights["night"].unique().sort().to_list()
    # Several campaigns may have measured in one night.
    last_night = max(nights, key=lambda night: (night.night, _badness(night)), default=None)
    if alarms:
        css_class, state = "bad", units.plural(len(alarms), "open alarm")
    elif last_night:
        css_class = _OUTCOME_CLASSES[last_night.outcome]
        state = f"last night: {last_night.outcome}"
    else:
        css_class, state = "plain", "no alarm; no night was judged"
    dates = [*measured_dates, last_night.night] if last_night else measured_dates
    return {
        "machine": history.machine,
        "page": f"{history.machine}/index.html",
        "look": css_class,
        "state": state,
        "last_night": str(max(dates, default="")),
        "nights": len(measured_dates),
        "alarms": alarms,
        "series": len(history.watched),
        "not_watched": sum(series.level is None for series in history.watched),
        "emulated": history.emulated,
    }


def machine_page(history: MachineHistory, nights: Sequence[PageNight]) -> str:
    """The page of one machine."""
    return render_page(
        PACKAGE,
        f"Nights of {history.machine}",
        {"dates": unbroken_dates},
        template="machine.html",
        history=history,
        state=machine_state(history, nights),
        alarms=sorted(history.alarms, key=lambda alarm: (not alarm.open, alarm.night)),
        cases=_cases(history),
        nights=sorted(nights, key=lambda night: night.night, reverse=True)[:_MAX_LISTED_NIGHTS],
        outcome_classes=_OUTCOME_CLASSES,
        plural=units.plural,
        meaning=MEANING,
        recent=RECENT_NIGHTS,
        fewest=MIN_NIGHTS_BEFORE,
        most=MAX_NIGHTS_BEFORE,
    )


def _cases(history: MachineHistory) -> list[View]:
    """The cases in order of names, each with its series."""
    alarms = {alarm.key: alarm for alarm in history.alarms}
    ordered = sorted(history.watched, key=lambda series: series.key)
    series_by_case = grouped(
        (
            (series.campaign, series.case),
            _series_view(history.nights, series, alarms.get(series.key), f"n{number}"),
        )
        for number, series in enumerate(ordered)
    )
    return [
        View(campaign=campaign, case=case, series=series)
        for (campaign, case), series in series_by_case.items()
    ]


def _series_view(
    nights: pl.DataFrame, series: WatchedSeries, alarm: Alarm | None, id_prefix: str
) -> View:
    """The texts and the figure of a series; `id_prefix` makes the figure's ids unique."""
    key_values = dict(zip(SERIES_KEY, series.key, strict=True))
    rows = nights.filter(**key_values, unit=series.unit)
    last_row = latest_rows(rows).row(0, named=True)
    divisor, scaled_unit = figures.divisor_and_unit(median_of(rows["value"]), series.unit)
    unit = "" if scaled_unit == "1" else scaled_unit
    title, colour = _QUANTITIES[series.quantity]

    def value_text(value: float | None) -> str:
        return "" if value is None else f"{figures.number(value / divisor)} {unit}".rstrip()

    scaled_rows = rows.select(pl.col("value", "low", "high") / divisor).with_columns(rows["night"])
    last_text = value_text(last_row["value"])
    alt = f"{series.case} {series.arm}, {title}, by night; the last one {last_text}"
    since = date.fromisoformat(alarm.since) if alarm else None
    level = None if series.level is None else series.level / divisor
    return View(
        arm=series.arm,
        quantity=title,
        latest=last_text,
        night=str(last_row["night"]),
        interval=(
            f"{value_text(last_row['low'])} to {value_text(last_row['high'])}"
            if last_row["low"]
            else ""
        ),
        reference=value_text(series.level),
        detectable="" if series.detectable is None else percentage(series.detectable, ".1f"),
        verdict=last_row["verdict"] or "",
        has_open_alarm=bool(alarm and alarm.open),
        svg=_nights_figure(scaled_rows, colour, unit, level, since, id_prefix, alt),
    )


def _nights_figure(
    rows: pl.DataFrame,
    colour: str,
    unit: str,
    level: float | None,
    since: date | None,
    id_prefix: str,
    alt: str,
) -> Markup:
    """A figure with a point and an interval for each night.

    A dashed line shows the usual `level`, and a vertical line the day `since` which it changed.
    """
    days = [day.toordinal() for day in rows["night"]]
    with plots.drawing(1.6, 3.6, font_size=8) as figure:
        axes = figure.subplots()
        axes.plot(days, rows["value"], "o", ms=3, color=light_colour(colour))
        low, high = (rows[end].cast(pl.Float64).fill_null(math.nan) for end in ("low", "high"))
        axes.vlines(days, low, high, color=light_colour(colour), lw=0.6, alpha=0.5)
        if level is not None:
            axes.axhline(level, color=light_colour("muted"), ls="--", lw=1)
        if since:
            axes.axvline(since.toordinal(), color=light_colour("on"), lw=1)
        end_days = sorted({days[0], days[-1]})
        axes.set_xticks(end_days, [date.fromordinal(day).isoformat() for day in end_days])
        plots.finish_axes(axes, "", unit)
        return plots.themed_svg(figure, id_prefix, alt)


def index_page(states: Sequence[Row], tables: Mapping[str, list[Row]]) -> str:
    """The page over all machines; `tables` is what `across.side_by_side` returns."""
    return render_page(
        PACKAGE,
        "Slowdown under network writes: all machines",
        {"dates": unbroken_dates},
        template="index.html",
        states=sorted(states, key=lambda state: (_CLASSES.index(state["look"]), state["machine"])),
        slowdowns=list(_slowdown_figures(tables["slowdowns"])),
        rates_svg=_rates_figure(tables["rates"]),
        rates=tables["rates"],
        headroom_svg=headroom_figure(tables["headroom"]),
        headroom=tables["headroom"],
        preliminary=paper()["slides_preliminary_test"],
        facts=tables["machines"],
        triads=tables["triad"],
        meaning=MEANING,
        quantity=figures.quantity,
        signed=figures.signed_text,
        span=lambda low, high: "" if low is None or high is None else f"{low:.3f} to {high:.3f}",
    )


def _slowdown_figures(rows: Sequence[Row]) -> Iterator[tuple[str, Markup]]:
    """Yield name and figure of each case and treatment; machines are in the order of `rows`."""
    groups = grouped((f"{row['case']} {row['arm']}, {row['campaign']}", row) for row in rows)
    for number, (name, machines) in enumerate(groups.items()):
        marks = {row["machine"]: " (emulated)" if row["emulated"] else "" for row in machines}
        labels = [f"{machine}{mark}" for machine, mark in marks.items()]
        estimates = [Estimate(row["value"], row["low"], row["high"]) for row in machines]
        with plots.drawing(0.8 + 0.35 * len(machines), 4.0, font_size=9) as figure:
            axes = plots.rows_axes(figure, labels, "slowdown")
            for line, (row, estimate) in enumerate(zip(machines, estimates, strict=True)):
                plots.draw_interval(axes, estimate, line, "spin" if row["emulated"] else "on")
            alt = f"Slowdown of {name}: {plots.estimates_text(zip(labels, estimates, strict=True))}"
            yield name, plots.themed_svg(figure, f"m{number}", alt)


def _rates_figure(rates: Sequence[Row]) -> Markup:
    """The rate of the network against triad per core, with a numbered point for each machine.

    The axes are logarithmic. A line shows where both rates are equal.
    """
    points = [(row["memory_core_b_s"] / 1e9, row["network_b_s"] / 1e9) for row in rates]
    fast_networks = [row["machine"] for row in rates if row["network_b_s"] > row["memory_core_b_s"]]
    alt = (
        f"Network against triad per core of {units.plural(len(rates), 'machine')}. The network "
        f"is faster than one core's share of the memory on {', '.join(fast_networks) or 'none'}."
    )
    with plots.drawing(3.6) as figure:
        axes = figure.subplots()
        _draw_numbered_points(axes, rates, points)
        plots.set_logarithmic(axes, "x", "y")
        ends = [min(map(min, points)), max(map(max, points))]
        axes.plot(ends, ends, color=light_colour("muted"), lw=1)
        plots.finish_axes(axes, "triad per core, GB/s", "network, GB/s")
        return plots.themed_svg(figure, "rates", alt)


def headroom_figure(machines: Sequence[Row]) -> Markup:
    """Triad's slowdown against the share of memory bandwidth that it takes without writes.

    There is a numbered point for each machine.
    """
    shares = [
        f"{row['machine']} {row['slowdown']:.2f} at {percentage(row['share'])}" for row in machines
    ]
    alt = f"Slowdown of triad against the share of the memory's bandwidth: {', '.join(shares)}"
    with plots.drawing(3.2) as figure:
        axes = figure.subplots()
        _draw_numbered_points(
            axes, machines, [(100 * row["share"], row["slowdown"]) for row in machines]
        )
        axes.axhline(1, color=light_colour("muted"), lw=1)
        plots.finish_axes(axes, "triad without writes, % of what the memory carries", "slowdown")
        return plots.themed_svg(figure, "headroom", alt)


def _draw_numbered_points(
    axes: Any, machines: Sequence[Row], points: Sequence[tuple[float, float]]
) -> None:
    """Draw a point with its number for each machine; points of published machines are hollow."""
    for number, (row, (x, y)) in enumerate(zip(machines, points, strict=True), 1):
        style: dict[str, Any] = (
            {"mfc": "none", "mec": light_colour("ink")} if row["published"] else {}
        )
        axes.plot(x, y, "o", color=light_colour("spin" if row["emulated"] else "on"), **style)
        # Odd numbers stand above their points, even ones below.
        offset_pt = 5 if number % 2 else -11
        axes.annotate(str(number), (x, y), (0, offset_pt), textcoords="offset points", ha="center")
