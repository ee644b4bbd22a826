"""Nights compared, simulated: the tables of docs/evidence.md.

    python -m tests.studies.nights [COMPARISONS]

Two sides of nights are compared as `nimc compare` does, with seven cases or one, each of three
quantities: time of the baseline and time under writes, which vary by 1 % from night to night, and
the slowdown, their ratio. Every figure comes from COMPARISONS (default 1000) comparisons with fixed
seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from analysis.compare.sides import Nights, Quantity, compare, correlation
from analysis.statistics.interval import Estimate
from tests.studies import head, row, show
from tests.studies.noises import Draw, bimodal, correlated, heavy, normal

COMPARISONS = 1000
CASES = (7, 1)
#: Nights of the reference, and of the side compared with it.
SIDES = ((3, 3), (4, 4), (5, 5), (7, 7), (10, 10), (20, 20), (10, 3), (10, 1))
SPREAD = 0.01
CHANGES = (0.02, 0.03, 0.05)


@dataclass(frozen=True)
class NightNoise:
    """How nights differ although nothing changes; the standard deviation is 1."""

    name: str
    #: Deviation of each night.
    draw: Draw
    #: Share of the variance that all cases and quantities have in common.
    common: float = 0.0


NOISES = (
    NightNoise("independent", normal),
    *(NightNoise(f"correlated by {r}", correlated(r)) for r in (0.3, 0.6, 0.9)),
    *(NightNoise(f"by {r}, cases alike", correlated(r), common=0.8) for r in (0.6, 0.9)),
    NightNoise("bimodal", bimodal),
    NightNoise("Student's t, 3 degrees", heavy),
)


def made_nights(
    noise: NightNoise, rng: np.random.Generator, count: int, cases: int, change: float = 0.0
) -> Nights:
    """`count` nights; the first case is slower under writes by the share `change`."""
    apart, common = noise.draw(rng, (2, cases, count)), noise.draw(rng, (1, 1, count))
    logs = SPREAD * (np.sqrt(1 - noise.common) * apart + np.sqrt(noise.common) * common)
    logs[1, 0] += np.log1p(change)
    nights: dict[Quantity, list[Estimate]] = {}
    for case, (off, on) in enumerate(logs.swapaxes(0, 1)):
        for arm, metric, logs_of in (
            ("off", "off", off),
            ("on", "on", on),
            ("on", "slowdown", on - off),
        ):
            quantity = Quantity(f"case{case}", arm, metric, "s", "lower")  # type: ignore[arg-type]
            nights[quantity] = [Estimate(v, v, v) for v in np.exp(logs_of).tolist()]
    return nights


def named(
    noise: NightNoise,
    sides: tuple[int, int],
    cases: int,
    count: int,
    change: float = 0.0,
    *,
    past: int = 0,
) -> float:
    """Share of comparisons that name a change; of the first case if it did change.

    `past`: nights of the machine's history.
    """
    rng = np.random.default_rng([cases, *sides, *([past] if past else [])])
    hits = 0
    for _ in range(count):
        old = made_nights(noise, rng, sides[0], cases)
        new = made_nights(noise, rng, sides[1], cases, change)
        before = made_nights(noise, rng, past, cases).values()
        history = [[[night.value for night in of] for of in before]] if past else []
        rows = compare(old, new, (), correlation(old, new, *history))
        changed = {row.case for row in rows if row.verdict in ("worse", "better")}
        hits += "case0" in changed if change else bool(changed)
    return hits / count


def tables(count: int) -> Iterator[str]:
    """The lines of all tables, as Markdown."""
    columns = [
        " and ".join(map(str, sides)) + ("" if cases > 1 else ", one case")
        for cases, sides in product(CASES, SIDES)
    ]
    rows = list(zip(columns, product(CASES, SIDES), strict=True))
    yield from head(["unchanged nights: named, %", *(noise.name for noise in NOISES)])
    for column, (cases, sides) in rows:
        shares = [named(noise, sides, cases, count) for noise in NOISES]
        yield row([column, *map(_percent, shares)])
    yield from head(["change found, %", *(f"{change:.0%}" for change in CHANGES)])
    for column, (cases, sides) in rows:
        shares = [named(NOISES[0], sides, cases, count, change) for change in CHANGES]
        yield row([column, *map(_percent, shares)])
    yield from with_history(count)


def with_history(count: int) -> Iterator[str]:
    """The lines of a table of sides with a history, and of nights in turn."""
    yield from head(["nights, history", *(f"{noise.name}: named, 3 % found" for noise in NOISES)])
    for cases, sides, past in product(CASES, ((7, 7), (10, 10)), (0, 30, 90)):
        shares = [
            [named(noise, sides, cases, count, change, past=past) for change in (0.0, 0.03)]
            for noise in NOISES
        ]
        name = f"{sides[0]} and {sides[1]}, {past}" + ("" if cases > 1 else ", one case")
        yield row([name, *(", ".join(map(_percent, of)) for of in shares)])
    yield from head(["nights in turn", *(f"{noise.name}: named, 3 % found" for noise in NOISES)])
    for cases, nights in product(CASES, (7, 10)):
        shares = [
            [in_turn(noise, nights, cases, count, change) for change in (0.0, 0.03)]
            for noise in NOISES
        ]
        name = f"{nights} and {nights}" + ("" if cases > 1 else ", one case")
        yield row([name, *(", ".join(map(_percent, of)) for of in shares)])


def in_turn(noise: NightNoise, nights: int, cases: int, count: int, change: float = 0.0) -> float:
    """As `named`, of nights that are in turn of one side and of the other."""
    rng = np.random.default_rng([cases, nights, 1])
    hits = 0
    for _ in range(count):
        every = made_nights(noise, rng, 2 * nights, cases)
        old, new = ({of: values[start::2] for of, values in every.items()} for start in (0, 1))
        grown = {of for of in new if of.case == "case0" and of.metric != "off"}
        new |= {of: [night.mapped(lambda v: v * (1 + change)) for night in new[of]] for of in grown}
        rows = compare(old, new, (), correlation(old, new), in_turn=nights)
        changed = {row.case for row in rows if row.verdict in ("worse", "better")}
        hits += "case0" in changed if change else bool(changed)
    return hits / count


def _percent(share: float) -> str:
    return f"{share * 100:.1f}"


if __name__ == "__main__":
    show(tables, COMPARISONS)
