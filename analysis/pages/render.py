"""Renders the pages from what is known of the machines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from analysis.effects.verdict import MEANING
from analysis.history.alarm import WITHIN_NIGHTS, Alarm
from analysis.pages import across
from analysis.pages.data import MachineHistory, calendar_nights, made_changes, open_alarms
from analysis.pages.series import (
    OUTCOMES,
    CaseHistory,
    case_views,
    months,
    outcome_counts,
    quantity_name,
)
from analysis.pages.svg import Bar, Place, bars_svg, places_svg
from analysis.report.shell import render_page
from analysis.report.words import utc
from nimc.base import units

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
    made = made_changes(history.runs)
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


def _summary(history: MachineHistory, cases: Sequence[CaseHistory]) -> list[str]:
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
    interval = "" if each.ratio_low is None else f" ({_span(each.ratio_low, each.ratio_high)})"
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
    places = [
        Place(f"{line}", each.memory_core_b_s / 1e9, each.network_b_s / 1e9, each.published)
        for line, each in enumerate(rates, 1)
    ]
    above = [each.machine for each in rates if each.network_b_s > each.memory_core_b_s]
    alt = (
        f"Network against triad per core of {units.plural(len(places), 'machine')}. The network "
        f"is faster than one core's share of the memory on {', '.join(above) or 'none'}."
    )
    return places_svg(places, alt, "triad per core, GB/s", "network, GB/s")
