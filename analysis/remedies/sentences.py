"""Advice in three sentences, for whoever decides; they say no more than the intervals do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from analysis.effects.verdict import Verdict
from analysis.remedies.advice import Advice, Best, NextPairs, RemedyAdvice, Standing
from analysis.remedies.effect import RemedyEffect
from analysis.remedies.throttling import Throttling
from analysis.statistics.interval import Estimate
from analysis.statistics.location import Crossing
from nimc.base.units import number, plural, quantity

#: Most recommendations in the sentence.
_MOST = 3


def sentences(advice: Advice) -> list[str]:
    """What is lost, what is recommended, and what is not decided."""
    return [_lost(advice), _recommended(advice), _open(advice)]


def advice_document(advice: Advice) -> dict[str, Any]:
    """The advice and its sentences as JSON holds them."""
    return advice.as_dict() | {"sentences": sentences(advice)}


def percent(share: Estimate) -> str:
    """A share with its interval: `3.1 % [2.5, 3.8]`."""
    return f"{share.value * 100:.1f} % [{share.low * 100:.1f}, {share.high * 100:.1f}]"


def more_work(net: Estimate) -> str:
    """A net benefit as work done in the same time: `2.1 % [1.2, 3.0] more work`."""
    return f"{percent(net.mapped(lambda speed: speed - 1))} more work"


def where(found: Crossing | None, unit: str) -> str:
    """A crossing as text: `3.98 GB/s [3.61, 4.40]`, `above 7.2 GB/s`, `not decided`.

    With the unit `%`, of a share of time.
    """

    def text(value: float) -> str:
        return f"{value * 100:.0f} %" if unit == "%" else quantity(value, unit, 3)

    if found is None:
        return ""
    if unit == "%" and (found.low == 1 or found.high == 0):
        return "never" if found.low == 1 else "always"
    if found.value is not None and found.low is not None and found.high is not None:
        return f"{text(found.value)} [{text(found.low)}, {text(found.high)}]"
    if found.low is not None:
        return f"above {text(found.low)}"
    return f"below {text(found.high)}" if found.high is not None else "not decided"


def per_byte(sweep: Throttling) -> tuple[str, str, str, str]:
    """Loss per byte written with both ends, and its unit; without an estimate, dashes."""
    # A relative loss is in per cent for each GB/s written.
    factor, unit = (1.0, "B/s per B/s") if sweep.bandwidth else (1e11, "% per GB/s")
    of = sweep.slope
    values = (of.value, of.low, of.high) if of else (None, None, None)
    value, low, high = (number(each and each * factor, 3) for each in values)
    return value, low, high, unit


def named(effect: RemedyEffect) -> str:
    """A remedy with the case and the traffic: `reserved_cores=1 for stream under on`."""
    return f"{effect.remedy} for {effect.case} under {effect.traffic}"


def _lost(advice: Advice) -> str:
    found = [loss for loss in advice.losses if loss.verdict is not Verdict.BASELINE_UNSTABLE]
    if not found:
        return "No loss can be stated: no traffic was measured in six pairs with a stable baseline."
    most, assumed = max(found, key=lambda loss: loss.lost.value), advice.assumed
    text = "With traffic all the time, as in the runs"
    if assumed.traffic_share is not None:
        text = f"With traffic {assumed.share * 100:.3g} % of the time (assumed)"
    rate = "" if most.rate_b_s is None else f" ({quantity(most.rate_b_s, 'B/s', 3)})"
    rate += " [emulated]" if most.emulated else ""
    text += f", {most.traffic}{rate} costs {most.case} {percent(most.lost)} of its node-hours"
    if (hours := most.node_hours_month) and assumed.nodes is not None:
        text += f", {hours.value:,.0f} [{hours.low:,.0f}, {hours.high:,.0f}] node-hours a month if"
        text += f" {plural(assumed.nodes, 'node')} (assumed) run it"
    text += f", the most of {len(found)} measured cases of traffic" if len(found) > 1 else ""
    if most.lost.low <= 0:
        text += "; the interval holds 0" if most.lost.high >= 0 else "; it gains"
        text += ", so no loss is shown"
    return f"{text}."


def _recommended(advice: Advice) -> str:
    rows = advice.remedies
    if not rows:
        return "No remedy was tried, so none is recommended."
    if all(row.effect.emulated for row in rows):
        better = sum(row.standing is Standing.BETTER for row in rows)
        return (
            "The traffic was emulated, so no remedy is recommended for RDMA hardware"
            f" ({better} of {len(rows)} were better here)."
        )
    parts = []
    if advice.best:
        parts.append(f"Recommended: {_some([_of_best(each) for each in advice.best])}")
    if share := [
        f"{named(row.effect)}, {_break_even(row)}"
        for row in rows
        if row.better and not row.recommended
    ]:
        stated = "Worth its price where traffic takes enough of the time (--traffic-share)"
        parts.append(f"{stated}: {_some(share)}")
    if not parts:
        parts.append("No remedy is recommended")
    worse = [row for row in rows if row.standing is Standing.WORSE]
    if costs := [f"{named(row.effect)}, {more_work(row.net)}" for row in worse if row.net]:
        parts.append(f"Shown to cost more than it gains: {_some(costs)}")
    if slowed := {row.effect.remedy for row in rows if row.standing is Standing.SLOWER_WRITES}:
        parts.append(f"Helps the application by delaying the writes: {_some(sorted(slowed))}")
    return f"{'. '.join(parts)}."


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return "; ".join(names[:_MOST]) + (f"; and {more} more" if more > 0 else "")


def _break_even(row: RemedyAdvice) -> str:
    if row.costs_nothing:
        return "at any share"
    found = where(row.break_even, "%")
    return f"from {found} on" if row.break_even.value is not None else f"({found})"


def _of_best(best: Best) -> str:
    first, *others = best.remedies
    text = named(first.effect)
    if first.net:
        text += f", {more_work(first.net)}, worth its price {_break_even(first)}"
    if others:
        rest = ", ".join(row.effect.remedy for row in others)
        text += f" (better than {rest})" if best.decided else f" (or {rest}: not decided which)"
    return text


def _open(advice: Advice) -> str:
    standings = Counter(row.standing for row in advice.remedies)
    undecided = sum(times for standing, times in standings.items() if standing.is_open)
    unstable = standings[Standing.UNSTABLE]
    if not advice.remedies:
        return "A campaign with a remedy, such as campaigns/throttling.yaml, would show its price."
    tried = f"{plural(len(advice.remedies), 'case')} of a remedy under traffic"
    if not undecided and not unstable:
        return f"Nothing is open in {tried}."
    text = f"Not decided: {undecided + unstable} in {tried}"
    if (row := advice.next) and row.next:
        text += f"; {_following(row, row.next)}"
    return f"{text}."


def _following(row: RemedyAdvice, requested: NextPairs) -> str:
    cost = f"{plural(requested.pairs, 'more pair')} ({number(requested.node_hours, 2)} node-hours)"
    if requested.allocations is not None:
        more = plural(requested.allocations, "other allocation")
        return f"next {cost} in {more}, to see whether {named(row.effect)} does the same there"
    if requested.finds is None:
        return f"next {cost} for a first interval of {named(row.effect)}"
    return (
        f"next {cost} would show a net difference of {requested.finds * 100:.1f} % of"
        f" {named(row.effect)}"
    )
