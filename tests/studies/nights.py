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
    noise: NightNoise, sides: tuple[int, int], cases: int, count: int, change: float = 0.0
) -> float:
    """Share of comparisons that name a change; of the first case if it did change."""
    rng = np.random.default_rng([cases, *sides])
    hits = 0
    for _ in range(count):
        old = made_nights(noise, rng, sides[0], cases)
        new = made_nights(noise, rng, sides[1], cases, change)
        rows = compare(old, new, (), correlation(old, new))
        changed = {row.case for row in rows if row.verdict in ("worse", "better")}
        hits += "case0" in changed if change else bool(changed)
    return hits / count


def tables(count: int) -> Iterator[str]:
    """The lines of both tables, as Markdown."""
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


def _percent(share: float) -> str:
    return f"{share * 100:.1f}"


if __name__ == "__main__":
    show(tables, COMPARISONS)
