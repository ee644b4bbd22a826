"""A small version of the simulations in docs/evidence.md. Margins: binomial, with fixed seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies.noises import NOISES, RunNoise, nights
from studies.verdicts import after, before, cell, covers_next, power

#: P(fewer than 364 of 400 covered | 94 %) and P(more than 20 of 400 | 2.5 %) are below 0.6 %.
NIGHTS = 400


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_covers_and_names_no_effect_where_there_is_none(noise: RunNoise) -> None:
    for pairs in (6, 10, 20):
        found = cell(noise, pairs, 0.01, after, NIGHTS)
        assert found.coverage >= 364 / NIGHTS
        assert found.false_positives <= 20 / NIGHTS


def test_fifteen_pairs_find_two_percent_and_twenty_five() -> None:
    """Of 400 nights at 90 %, fewer than 344 come in 0.5 %."""
    normal = NOISES[0]
    assert power(normal, 15, 0.01, 1.02, after, NIGHTS) >= 344 / NIGHTS
    assert power(normal, 20, 0.03, 1.05, after, NIGHTS) >= 344 / NIGHTS
    # The first version needed about 30 and 40.
    assert power(normal, 15, 0.01, 1.02, before, NIGHTS) < 0.6
    assert power(normal, 20, 0.03, 1.05, before, NIGHTS) < 0.6


def test_without_an_effect_power_is_the_level() -> None:
    assert power(NOISES[0], 10, 0.01, 1.0, after, NIGHTS) <= 20 / NIGHTS


def test_the_next_allocation_is_covered_now() -> None:
    old, new = covers_next(0.01, 5, NIGHTS)
    assert new >= 364 / NIGHTS
    assert old < 0.7


def test_noises_are_what_they_are_called() -> None:
    """Means of 0 where no more is said, spread of 1, and the effect on `on` alone."""
    for noise in NOISES:
        drawn = nights(noise, np.random.default_rng(1), 2000, 10, 0.01, 1.5)
        on, off, aa = np.moveaxis(drawn, -1, 0)
        assert np.median(on - off) == pytest.approx(np.log(1.5), abs=0.001)
        assert np.median(aa - off) == pytest.approx(0, abs=0.001)
        if noise.name in ("normal", "uniform", "bimodal", "log-normal, skewed"):
            assert float(np.std(off)) == pytest.approx(0.01, rel=0.06)


def test_the_tables_are_those_of_the_page() -> None:
    """Every noise stands in the page's tables, and no figure there breaks what is promised."""
    page = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text()
    section = page.partition("\n## Coverage, level and power\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")]
    for noise in NOISES:
        coverage, level, _ = (row[1:] for row in rows if row[0] == f"| {noise.name}")
        assert all(float(c.strip(" |")) >= 0.94 for c in coverage)
        assert all(float(c.strip(" |")) <= 0.025 for c in level)
