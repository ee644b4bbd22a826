"""Renders the pages from what is known of the machines. Pure."""

from __future__ import annotations

import calendar
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count, groupby
from typing import TYPE_CHECKING, Any

import polars as pl
from markupsafe import Markup

from analysis.effects.verdict import MEANING
from analysis.history.alarms import Alarm, SeriesWatch
from analysis.history.monitor import FEWEST_NIGHTS, WITHIN_NIGHTS
from analysis.history.tables import COUNTER, KEY, latest_kind
from analysis.pages import across
from analysis.pages.alarms import (
    MISSED,
    RECENT_DAYS,
    STILL_SLOWER,
    AlarmGroup,
    alarm_groups,
    calendar_nights,
    look_of,
    made_on,
    open_alarms,
    recent,
    shown_alarms,
    usual_gap,
)
from analysis.pages.data import RECORDED, FactChange, MachineHistory, PageNight, fact_changes
from analysis.pages.svg import Bar, Mark, NightsFigure, bars_svg, nights_svg
from analysis.report.plots import View, drawing, light, logarithmic, render_page, themed_svg
from analysis.report.words import utc, whole_dates
from analysis.statistics.interval import middle
from nimc.base import units
from nimc.base.groups import grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Quantity -> its name on the page, and the CSS variable of its points.
_QUANTITIES = {
    "fom": ("figure of merit", "off"),
    "slowdown": ("slowdown", "on"),
    "writer_rate": ("rate of the writers", "level2"),
}
_COUNTER_COLOUR = "level3"
SeriesKey = tuple[str, str, str, str]


def case_views(
    history: MachineHistory, made: Sequence[FactChange], alarms: Mapping[SeriesKey, Alarm]
) -> list[View]:
    """The cases of the machine by name: each with its series, and the look of its open alarms."""
    if history.nights.is_empty():
        return []
    days = history.nights["night"].sort()
    first, last = (date.fromisoformat(str(days[at])) for at in (0, -1))
    watches = {each.key: each for each in history.watches}
    of_night = grouped(((each.campaign, each.night), each.name) for each in made)
    marks = grouped(
        (campaign, Mark(date.fromisoformat(night), "made", f"{night}: {', '.join(names)} changed"))
        for (campaign, night), names in of_night.items()
    )
    of_case: dict[tuple[str, str], list[View]] = {}
    for key, rows in _parts(history.nights):
        own = watches.get(key), alarms.get(key), marks.get(key[0], [])
        of_case.setdefault(key[:2], []).append(_series(key, rows, *own, (first, last)))
    return [
        View(
            campaign=campaign,
            case=case,
            series=series,
            alarm=min((each.alarm for each in series if each.alarm), default=""),  # bad, then warn
        )
        for (campaign, case), series in sorted(of_case.items())
    ]


def quantity_name(quantity: str) -> str:
    """A quantity as the pages show it."""
    return _QUANTITIES[quantity][0] if quantity in _QUANTITIES else quantity.removeprefix(COUNTER)


def _parts(nights: pl.DataFrame) -> Iterator[tuple[SeriesKey, pl.DataFrame]]:
    """The rows of each series with a value in its present unit, in order of time."""
    rows = latest_kind(nights.filter(pl.col("value").is_finite())).sort("started_s")
    parts = rows.partition_by(*KEY, as_dict=True, maintain_order=True)
    order = {quantity: place for place, quantity in enumerate(_QUANTITIES)}
    for names in sorted(parts, key=lambda key: (*key[:2], order.get(str(key[3]), 9), *key[2:])):
        campaign, case, arm, quantity = map(str, names)
        yield (campaign, case, arm, quantity), parts[names]


def _series(
    key: SeriesKey,
    rows: pl.DataFrame,
    watch: SeriesWatch | None,
    alarm: Alarm | None,
    made: Sequence[Mark],
    span: tuple[date, date],
) -> View:
    """What the page shows of a series: texts, and its figure over the days of `span`.

    It is compared with the reference of its open alarm, else with the baseline in use; reference
    and change are empty without one.
    """
    _, case, arm, quantity = key
    name, last = quantity_name(quantity), rows.row(-1, named=True)
    factor, unit = units.scale(middle(rows["value"]), last["unit"])
    unit = "" if unit == "1" else unit

    def shown(value: float) -> str:
        return f"{units.number(value / factor)} {unit}".rstrip()

    level, nights, least = None, 0, None
    if alarm:
        before = pl.col("night") < date.fromisoformat(alarm.since)
        nights = rows.filter(pl.col("run").is_in(alarm.runs), before)["night"].n_unique()
        level, least = alarm.reference, alarm.detectable
    elif watch:
        level, nights, least = watch.level, watch.baseline_nights or 0, watch.detectable
    alt = (
        f"{case} {arm}, {name}: {units.plural(rows['night'].n_unique(), 'night')}, the last one "
        f"{shown(last['value'])} on {last['night']}"
    )
    known = dict.fromkeys(("reference", "reference_nights", "change", "loss"), "")
    known["detectable"] = "too few nights for a reference"
    if level is not None:
        ratio = last["value"] / level
        change = _percent(ratio if last["better"] == "lower" else 1 / ratio)
        loss = "none" if least is None else f"{least * 100:.1f} %"
        found = "no loss" if least is None else f"a loss of {loss}"
        known = {
            "reference": shown(level),
            "reference_nights": units.plural(nights, "night"),
            "change": change,
            "loss": loss,
            "detectable": f"{found} is found within {WITHIN_NIGHTS} nights",
        }
        alt += f", {change} than the reference of {shown(level)}"
    changes = [
        Mark(
            date.fromisoformat(each.since),
            "worse" if each.worse else "better",
            f"{_percent(each.ratio)} since {each.since}",
        )
        for each in (watch.changes if watch else [])
    ]
    values, low, high = (
        rows[column].cast(pl.Float64).fill_null(float("nan")).to_numpy() / factor
        for column in ("value", "low", "high")
    )
    whole = last["low"] is not None and last["high"] is not None
    figure = NightsFigure(
        *(rows["night"].to_list(), values, low, high),
        colour=_QUANTITIES.get(quantity, ("", _COUNTER_COLOUR))[1],
        alt=f"{alt}. Changes of level: {'; '.join(mark.text for mark in changes) or 'none'}.",
        level=None if level is None else level / factor,
        marks=[*made, *changes],
    )
    return View(
        **known,
        svg=nights_svg(figure, *span),
        arm=arm,
        quantity=name,
        unit=unit,
        night=str(last["night"]),
        latest=shown(last["value"]),
        interval=f"{units.number(low[-1])} to {units.number(high[-1])}" if whole else "",
        verdict=last["verdict"] or "",
        alarm=look_of(alarm.acknowledged) if alarm else "",
    )


def _percent(ratio: float) -> str:
    """A ratio of times in words: `2.1 % worse`."""
    return f"{abs(ratio - 1) * 100:.1f} % {'worse' if ratio >= 1 else 'better'}"


#: Outcome -> mark and CSS class; the first one wins where a date has several nights.
OUTCOMES = {
    "slower": ("S", "bad"),
    STILL_SLOWER: ("s", "bad"),
    "machine failed": ("F", "bad"),
    "inconclusive": ("?", "warn"),
    "not run": ("\u2013", "warn"),
    "measured": ("\u2713", "good"),
    RECORDED: ("\u2022", "plain"),
}


def years(nights: Sequence[PageNight]) -> list[View]:
    """The years that have nights, the latest first: name, months and how many nights ended how.

    The months from the first to the last night, the latest first, each with its name and its weeks
    from Monday; None is a day of another month.
    """
    of_year = grouped((each.night.year, each) for each in nights)
    return [
        View(name=str(year), months=_months(found), counts=outcome_counts(found))
        for year, found in sorted(of_year.items(), reverse=True)
    ]


def _months(nights: Sequence[PageNight]) -> list[View]:
    of_day = grouped((each.night, each) for each in nights)
    first, last = min(of_day), max(of_day)
    return [
        View(
            name=f"{date(first.year, month, 1):%B %Y}",
            weeks=[
                [_day(day, of_day.get(day, [])) if day.month == month else None for day in week]
                for week in calendar.Calendar().monthdatescalendar(first.year, month)
            ],
        )
        for month in range(last.month, first.month - 1, -1)
    ]


def outcome_counts(nights: Sequence[PageNight]) -> dict[str, int]:
    """Outcome -> nights that ended so, in the order of `OUTCOMES`; only those that occur."""
    counts = {name: sum(each.outcome == name for each in nights) for name in OUTCOMES}
    return {name: count for name, count in counts.items() if count}


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


PACKAGE = "analysis.pages"
#: Half the height of a number next to a point, and half the size of the point, points.
_HALF_PT = 4.5
#: Most changes of how runs were made that are listed; the data file has all.
_LISTED = 60
#: Most open alarms in the summary.
_NAMED = 3
#: Outcomes that need no reason.
_MEASURED = ("measured", RECORDED, STILL_SLOWER)


@dataclass(frozen=True)
class MachineState:
    """A machine in the list of all."""

    machine: str
    #: Address of its page, from the list.
    page: str
    #: `bad`, `warn`, `plain` or `good`, and why in words.
    look: str
    state: str
    last_night: str
    outcome: str
    #: Nights with a run.
    nights: int
    #: Nights of the last `RECENT_DAYS` days, and how many of them measured nothing.
    expected: int
    missed: int
    #: Groups of open alarms, those that a user has acknowledged, and the first group in words.
    open_alarms: int
    acknowledged: int
    worst: str
    #: Quantities that are watched, and those with too few nights for that.
    watched: int
    not_watched: int
    emulated: bool


#: Shares of missed nights from which a machine is not in order, and from which it needs a look.
_MISSED_BAD, _MISSED_WARN = 0.25, 0.05
#: Pages are old after the gap that so many nights do not exceed, and a day.
_LONG_GAPS = 0.9
#: Alarms that ended longer ago are folded, days.
_OLD_DAYS = 365
#: The worst first.
_LOOKS = ("bad", "warn", "plain", "good")


def state_of(history: MachineHistory) -> MachineState:
    """The machine's line in the list."""
    shown = shown_alarms(history)
    nights = calendar_nights(history, shown)
    groups = [group for group in alarm_groups(shown) if group.until is None]
    last = nights[-1] if nights else None
    expected = recent(history, nights)
    missed = sum(each.outcome in MISSED for each in expected)
    seen = sum(group.acknowledged is not None for group in groups)
    look, state = _look(last, len(groups), seen, len(expected), missed)
    watched = sum(each.level is not None for each in history.watches)
    return MachineState(
        machine=history.machine,
        page=f"{history.machine}/index.html",
        look=look,
        state=state,
        last_night=last.night.isoformat() if last else "",
        outcome=last.outcome if last else "",
        nights=len({each.night for each in nights if each.run}),
        expected=len(expected),
        missed=missed,
        open_alarms=len(groups),
        acknowledged=seen,
        worst=groups[0].text if groups else "",
        watched=watched,
        not_watched=len(history.watches) - watched,
        emulated=bool(history.emulated),
    )


def _look(
    last: PageNight | None, alarms: int, seen: int, expected: int, missed: int
) -> tuple[str, str]:
    """The worst of what is known of a machine, and it in words; the first of equally bad.

    What is slower is not bad while every open alarm has been `seen`.
    """
    if last is None:
        return "plain", "never measured"
    is_seen = 0 < alarms == seen
    is_slower = last.outcome in ("slower", STILL_SLOWER)
    look = "warn" if is_seen and is_slower else OUTCOMES[last.outcome][1]
    found = [(look, f"last night: {last.outcome}")]
    if alarms:
        text = units.plural(alarms, "open alarm") + (f", {seen} acknowledged" if seen else "")
        found.insert(0, ("warn" if is_seen else "bad", text))
    if not expected:
        found.append(("warn", f"no night in {RECENT_DAYS} days"))
    elif missed >= _MISSED_WARN * expected:
        look = "bad" if missed >= _MISSED_BAD * expected else "warn"
        found.append((look, f"{missed} of {expected} nights not measured"))
    worst = min(found, key=lambda each: _LOOKS.index(each[0]))[0]
    return worst, "; ".join(text for look, text in found if look == worst)


def ordered(histories: Sequence[MachineHistory]) -> list[MachineState]:
    """The machines' lines: most alarms that nobody has seen first, then open, missed nights."""

    def place(of: MachineState) -> tuple[int, int, int, str]:
        return of.acknowledged - of.open_alarms, -of.open_alarms, -of.missed, of.machine

    return sorted(map(state_of, histories), key=place)


def machine_page(history: MachineHistory) -> str:
    """The page of one machine."""
    made = fact_changes(history.runs)
    shown = shown_alarms(history)
    nights = calendar_nights(history, shown)
    cases = case_views(history, made, open_alarms(shown))
    groups = alarm_groups(shown)
    year_ago = (made_on(history) - timedelta(_OLD_DAYS)).isoformat()
    latest = history.runs.sort("started_s", descending=True).unique(
        "campaign", keep="first", maintain_order=True
    )
    return render_page(
        PACKAGE,
        f"Nights of {history.machine}",
        {"utc": utc, "dates": whole_dates},
        template="machine.html",
        history=history,
        age=_age([history], [nights]),
        summary=_summary(history, nights, groups),
        alarms=[  # those that ended more than a year ago are folded
            [each for each in groups if bool(each.until and each.until < year_ago) is is_old]
            for is_old in (False, True)
        ],
        latest=latest.iter_rows(named=True),
        cases=cases,
        last_night=max((each.night for case in cases for each in case.series), default=""),
        made=made[::-1],
        shown=_LISTED,
        years=years(nights),
        counts=outcome_counts(nights),
        expected_by=_expected_by(history, nights),
        not_measured=[each for each in reversed(nights) if each.outcome not in _MEASURED],
        outcomes=OUTCOMES,
        meaning=MEANING,
        within=WITHIN_NIGHTS,
    )


def index_page(histories: Sequence[MachineHistory]) -> str:
    """The page over all machines."""
    found = across.side_by_side(histories)
    drawn = {each.machine for each in found.rates}
    return render_page(
        PACKAGE,
        "Memory contention on all machines",
        {"dates": whole_dates},
        template="index.html",
        states=ordered(histories),
        recent_days=RECENT_DAYS,
        age=_age(histories, [calendar_nights(each, []) for each in histories]),
        ranks=found.ranks,
        plural=units.plural,
        slowdowns=_slowdown_figures(found.slowdowns),
        rates_svg=_rates_figure(found.rates),
        rates=found.rates,
        no_rates=[each.machine for each in histories if each.machine not in drawn],
        facts=found.facts,
        triads=found.triads,
        meaning=MEANING,
        quantity=units.quantity,
        signed=units.signed,
        span=_span,
    )


def _age(histories: Sequence[MachineHistory], nights: Sequence[Sequence[PageNight]]) -> str:
    """When the page was made, and from which day on that is long ago."""
    made_s = max(each.known_s for each in histories)
    gaps = [gap for each in nights if (gap := usual_gap(each, _LONG_GAPS)) is not None]
    text = f"Made {utc(made_s)}."
    if gaps:
        last = max(map(made_on, histories)) + timedelta(min(gaps) + 1)
        text += (
            f" If today is after {last}, this page is old: nights, or what makes pages after them,"
            " have stopped."
        )
    return text


def _expected_by(history: MachineHistory, nights: Sequence[PageNight]) -> str:
    """Where it is known from which nights were expected."""
    if history.schedules:
        return f"the schedule of {', '.join(history.schedules)}"
    gap = usual_gap(nights)
    return f"the usual gap between nights, {units.plural(gap, 'day')}" if gap else ""


def _summary(
    history: MachineHistory, nights: Sequence[PageNight], groups: Sequence[AlarmGroup]
) -> list[str]:
    """The last night, the alarms, nights that measured nothing, and what is watched."""
    if not nights:
        return ["Nothing is known of any night."]
    last, state = nights[-1], state_of(history)
    reason = f": {last.reason}" if last.reason else ""
    found = [group.text for group in groups if group.until is None]
    more = f" {len(found) - _NAMED} more below." if len(found) > _NAMED else ""
    return [
        f"Last night: {last.night}, {last.outcome}{reason}.",
        f"Open alarms: {' '.join(found[:_NAMED]) or 'none.'}{more}",
        f"Nights of the last {RECENT_DAYS} days: {state.expected}, {state.missed} of them not run"
        " or failed.",
        f"Watched quantities: {state.watched}. Not yet watched, with fewer than {FEWEST_NIGHTS} "
        f"nights at their present level: {state.not_watched}.",
    ]


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
        for each, place in zip(rates, places, strict=True):
            look: dict[str, Any] = {"mfc": "none", "mec": light("ink")} if each.published else {}
            axes.plot(*place, "o", color=light("spin" if each.emulated else "on"), **look)
        logarithmic(axes, "x", "y")
        ends = [min(map(min, places)), max(map(max, places))]
        axes.plot(ends, ends, color=light("muted"), lw=1)
        axes.set_xlabel("triad per core, GB/s")
        axes.set_ylabel("network, GB/s")
        axes.grid()
        _number(axes, places)
        return themed_svg(figure, "rates", alt)


def _number(axes: Axes, places: Sequence[tuple[float, float]]) -> None:
    """Numbers from 1 next to points, each where it covers no point and no other number."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # places the axes
    points = axes.transData.transform(places) * 72 / figure.dpi
    taken = [(x, y, _HALF_PT) for x, y in points]
    for at in sorted(range(len(places)), key=lambda at: points[at, 0]):
        x, y = points[at]
        half = _HALF_PT * (1 + len(str(at + 1))) / 2  # with a gap to the next number
        beside = (sign * _HALF_PT * 2 * step for step in count(1) for sign in (1, -1))
        off = next(
            off
            for off in beside
            if all(
                abs(x - other) >= half + width or abs(y + off - up) >= 2 * _HALF_PT - 0.01
                for other, up, width in taken
            )
        )
        taken.append((x, y + off, half))
        line = {"arrowstyle": "-", "color": light("muted"), "lw": 0.5, "shrinkA": 0}
        axes.annotate(
            str(at + 1), places[at], (0, off), textcoords="offset points", fontsize=8,
            ha="center", va="center", arrowprops=line if abs(off) > 2 * _HALF_PT else None,
        )  # fmt: skip
