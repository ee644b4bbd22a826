"""Tests a small version of the simulations in docs/evidence.md, and the tables of that page.

Seeds are fixed.
"""

import pytest
from scipy import stats

from analysis.effects.result import Verdict
from records.checkout import ROOT
from tests.studies.noises import NOISES
from tests.studies.verdicts import COVERED, FAMILIES, coverage, drawn, ever, fixed_pairs, power

NORMAL, SPIKES = NOISES[0], NOISES[2]
#: Noise with a gap, which is wider in treated runs. The page excludes it from the bounds of two
#: verdicts.
GAPPED = next(noise for noise in NOISES if noise.name == "bimodal, `on` twice as wide")


def test_an_effect_is_seldom_named_without_one_and_soon_named_with_one() -> None:
    """With an error of 4 %, more than 22 of 300 wrong verdicts have a probability of 0.4 %.

    A t test with ten pairs finds the effect.
    """
    assert ever(drawn(NORMAL, 300), "slower", 1) <= 22 / 300
    share, pairs = power(drawn(NORMAL, 40, effect=1.02), 10, Verdict.SLOWER)
    assert share >= 0.9
    assert pairs <= 1.5 * 10
    assert fixed_pairs(drawn(SPIKES, 200, effect=1.02), 1) is not None
    typical_covered, mean_covered, too_low = coverage(drawn(NORMAL, 200), 12)
    assert min(typical_covered, mean_covered) >= 179 / 200
    assert too_low <= 11 / 200


def test_the_tables_are_those_of_the_page() -> None:
    """Both tables of the page have every noise, and all figures keep within the promised bounds."""
    page = (ROOT / "docs/evidence.md").read_text()
    section = page.partition("\n## Coverage, level and power\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:2] == "| "]
    for noise in NOISES:
        covers, judged = (row[1:] for row in rows if row[0] == noise.name)
        assert len(covers) == 2 * len(COVERED)
        assert all(float(share) >= 0.9 for share in covers)
        slower, faster, unstable, wrong, small, by_t, *_ = judged
        bounds = [(faster, 0.01), (unstable, 0.05)]
        if noise is not GAPPED:
            bounds += [(slower, 0.04), (wrong, 0.05)]
        for shares, bound in bounds:
            for share, cases in zip(map(float, shares.split(", ")), FAMILIES, strict=False):
                # If the bound is met, at most `nights` of 4,000 are wrong with P = 0.99.
                nights = stats.binom.ppf(0.99, 4000, bound / cases)
                assert share <= 1 - (1 - nights / 4000) ** cases + 0.0005
        pairs = [float(figure.split()[1]) for figure in small.split(", ")]
        assert len(pairs) == len(FAMILIES)
        fixed = [float(figure) for figure in by_t.split(", ") if figure != "more"]
        if noise is NORMAL:
            assert max(p / n for p, n in zip(pairs, fixed, strict=True)) <= 1.5
        if noise is SPIKES:
            assert max(p / n for p, n in zip(pairs, fixed, strict=False)) < 1
        assert pytest.approx(sorted(pairs)) == pairs
