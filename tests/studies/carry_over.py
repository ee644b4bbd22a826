"""Simulates carry-over: runs with writes that change the time of the next run.

The result are tables of docs/evidence.md.

    python -m tests.studies.carry_over [NIGHTS]

A night is one case with `on`, `off` and `aa`. Its runs scatter by 1 %, and take longer or shorter
right after a run with writes. The night is analysed after 6, 8, 12, 16 and 24 pairs, in a campaign
of one, seven or twenty cases that are all alike. Figures come from NIGHTS (default 4,000) nights;
the pairs used come from a quarter of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from analysis.effects.result import Verdict
from analysis.statistics.carry_over import carry_over
from tests.studies import FRESH, head, row, show
from tests.studies.many import ManyNights
from tests.studies.noises import normal, runs_in_order

NIGHTS = 4_000
#: The mean number of pairs used is computed from a share 1 / `FEW` of the nights.
FEW = 4
MARGIN, SPREAD, MOST_PAIRS = 0.02, 0.01, 24
FAMILIES = (1, 7, 20)
#: How much longer a run takes right after a run with writes, as a share. Negative values: shorter.
LONGER = (0.0, 0.005, 0.01, 0.02, -0.005, -0.01, -0.02)
#: Numbers of pairs for which the share of nights with the report's note is computed, and values of
#: `LONGER` for which the price of the rule is computed: fewer verdicts, and more pairs.
NOTED, PRICED = (6, 12, 24), (0.0, 0.01, -0.01)


def drawn(longer: float, count: int, effect: float) -> ManyNights:
    """Draw nights with carry-over and a true slowdown `effect`, with fixed seeds."""
    rng = np.random.default_rng([FRESH, round(1e4 * (1 + longer)), round(1e4 * effect)])
    runs, after = runs_in_order(normal, rng, count, MOST_PAIRS)
    log_times = np.log1p(SPREAD * runs) + np.log1p(longer) * after
    log_times[..., 0] += np.log(effect)
    return ManyNights(log_times, after[..., 1:], MARGIN)


def without_rule(many_nights: ManyNights) -> ManyNights:
    """Return the nights without the record of which runs came right after writes."""
    return replace(many_nights, after=np.zeros_like(many_nights.after))


def family_shares(share: Callable[[int], float]) -> str:
    """Return the shares of campaigns of each size in which at least one case has a property.

    `share` maps the number of cases of a campaign to the share of single cases with this property.
    """
    shares = (1 - (1 - share(cases)) ** cases for cases in FAMILIES)
    return ", ".join(f"{any_case:.3f}" for any_case in shares)


def ever(many_nights: ManyNights, statement: str) -> str:
    """Return the shares of campaigns that show a statement about any case at any analysis."""
    return family_shares(lambda cases: float(many_nights.shown(statement, cases).any(1).mean()))


def noted(many_nights: ManyNights, pairs: int) -> str:
    """Return the shares of campaigns in which any case has the note after `pairs` pairs."""
    carried = [
        carry_over(times[:pairs], late[:pairs] > 0)
        for times, late in zip(many_nights.log_times, many_nights.after, strict=True)
    ]
    share = sum(night is not None and night.is_shown for night in carried) / len(carried)
    return family_shares(lambda _: share)


def power(many_nights: ManyNights, verdict: Verdict) -> str:
    """Return for each campaign size the share of nights with a verdict, and their mean pairs.

    The mean number of pairs is that of all nights.
    """
    cells = []
    for cases in FAMILIES:
        verdicts, pairs = many_nights.verdicts(cases)
        share = verdicts.count(verdict) / len(verdicts)
        cells.append(f"{share:.2f} {pairs.mean():.1f}")
    return ", ".join(cells)


def table(count: int) -> Iterator[str]:
    """Yield the lines of the tables, as Markdown."""
    statements = ("'no effect' at the margin", "'speed-up'", "'slower'")
    rules = ("without the rule", "with it")
    yield from head(["longer by", *(f"{name}, {rule}" for name in statements for rule in rules)])
    for longer in LONGER:
        # The effect that carry-over hides is a loss if runs take longer, else a gain.
        hidden = 1 + MARGIN if longer >= 0 else 1 / (1 + MARGIN)
        none, some = (drawn(longer, count, effect) for effect in (1.0, hidden))
        pairs = ((some, "within"), (none, "faster"), (none, "slower"))
        cells = [
            ever(rule, name)
            for many_nights, name in pairs
            for rule in (without_rule(many_nights), many_nights)
        ]
        yield row([f"{100 * longer:g} %", *cells])
    notes = (f"note, {pairs} pairs" for pairs in NOTED)
    verdicts = (f"{name}, {rule}" for name in ("'no effect'", "'slower' at 1.02") for rule in rules)
    yield from head(["longer by", *notes, *verdicts])
    for longer in PRICED:
        every, none, loss = (
            drawn(longer, nights, effect)
            for nights, effect in ((count, 1.0), (count // FEW, 1.0), (count // FEW, 1 + MARGIN))
        )
        cells = [noted(every, pairs) for pairs in NOTED]
        cells += [power(rule, Verdict.NO_EFFECT) for rule in (without_rule(none), none)]
        cells += [power(rule, Verdict.SLOWER) for rule in (without_rule(loss), loss)]
        yield row([f"{100 * longer:g} %", *cells])


if __name__ == "__main__":
    show(table, NIGHTS)
