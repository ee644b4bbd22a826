"""Tests carry-over, the effect of a run with writes on the next run.

Right results are worked out by hand, or simulated with fixed seeds.
"""

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.carry_over import carry_over, without_carry_over
from records.checkout import ROOT
from tests.studies import carry_over as study

#: Logarithms of times of `on`, `off` and `aa`, and whether `off` and `aa` came right after `on`. In
#: the fourth pair both did, in the fifth neither, so these pairs show no carry-over.
TIMES = np.array([[0.0, 0.3, 0.1], [0.0, 0.0, 0.1], [0.0, 0.4, 0.1], [0.0, 9, 5], [0.0, 7, 5]])
AFTER_WRITES = np.array([[1, 0], [0, 1], [1, 0], [1, 1], [0, 0]], bool)


def test_a_carry_over_by_hand() -> None:
    """Differences are 0.2, 0.1 and 0.3. Their mean is 0.2, its standard error 0.1 / sqrt(3)."""
    estimated = carry_over(TIMES, AFTER_WRITES)
    assert estimated is not None
    error = 0.1 / np.sqrt(3)
    half = stats.t.ppf(0.975, 2) * error
    ratio = estimated.ratio
    assert np.log([ratio.low, ratio.value, ratio.high]) == pytest.approx(
        [0.2 - half, 0.2, 0.2 + half]
    )
    assert (estimated.pairs, estimated.is_shown) == (3, False)
    assert estimated.allowed_log_ratios == pytest.approx((0.0, 0.2 + error))
    smallest, largest = without_carry_over(estimated, TIMES, AFTER_WRITES)
    assert smallest == pytest.approx(TIMES)
    relieved = (0.2 + error) * np.insert(AFTER_WRITES, 0, False, axis=1)
    assert largest == pytest.approx(TIMES - relieved)
    # Two pairs that show carry-over are too few. A pair with a missing run does not count.
    assert carry_over(TIMES[1:], AFTER_WRITES[1:]) is None
    assert carry_over(np.where(TIMES == 0.4, np.nan, TIMES), AFTER_WRITES) is None
    assert all(times is TIMES for times in without_carry_over(None, TIMES, AFTER_WRITES))


def test_a_carry_over_that_makes_runs_faster_is_shown_and_allowed_for() -> None:
    times = -TIMES
    estimated = carry_over(times, AFTER_WRITES)
    assert estimated is not None
    least = -0.2 - 0.1 / np.sqrt(3) / 2
    assert estimated.allowed_log_ratios == pytest.approx((least, 0.0))
    smallest, largest = without_carry_over(estimated, times, AFTER_WRITES)
    assert largest == pytest.approx(times)
    assert smallest == pytest.approx(times - least * np.insert(AFTER_WRITES, 0, False, axis=1))
    # If the differences are 0.1, -0.1 and 0, carry-over in either direction is possible.
    times = np.array([[0.0, 0.2, 0.1], [0.0, 0.2, 0.1], [0.0, 0.1, 0.1]])
    unclear = carry_over(times, AFTER_WRITES[:3])
    assert unclear is not None
    assert unclear.allowed_log_ratios == pytest.approx((-0.05 / np.sqrt(3), 0.1 / np.sqrt(3)))
    rng = np.random.default_rng(5)
    for left, shown in ((0.0, False), (-0.03, True), (0.03, True)):
        after = np.tile(AFTER_WRITES[:2], (10, 1))
        times = np.insert(rng.normal(0, 0.01, (20, 2)) + left * after, 0, 0.0, axis=1)
        assert carry_over(times, after).is_shown is shown  # type: ignore[union-attr]


@pytest.mark.parametrize(("spread", "shown"), [(0.0385, False), (0.033, True)])
def test_a_carry_over_is_shown_at_one_percent(spread: float, shown: bool) -> None:
    """Student's t of 0.2 with three pairs is 9.0 and 10.5; the table has 9.925 for 1 %."""
    times = np.insert(np.zeros((3, 2)), 1, 0.2 + spread * np.array([-1, 0, 1]), axis=1)
    estimated = carry_over(times, np.array([[1, 0]] * 3, bool))
    assert estimated is not None
    assert estimated.is_shown is shown


def share_of_one_case(shares: str) -> float:
    """Return the first of `shares`, which is that of campaigns of one case."""
    return float(shares.partition(",")[0])


@pytest.mark.slow
def test_a_carry_over_is_noted_and_makes_no_verdict_wrong() -> None:
    """The carry-over is up to two standard deviations of the noise, in 24 pairs.

    At an error level of 5 %, at most 25 of 300 verdicts are wrong.
    """
    none, loss = (study.drawn(0.02, 300, effect) for effect in (1.0, 1.02))
    faster, gain = (study.drawn(-0.01, 300, effect) for effect in (1.0, 1 / 1.02))
    assert share_of_one_case(study.ever(study.without_rule(loss), "within")) > 0.15
    assert share_of_one_case(study.ever(loss, "within")) <= 25 / 300
    assert share_of_one_case(study.ever(study.without_rule(none), "faster")) > 0.03
    assert share_of_one_case(study.ever(none, "faster")) <= 8 / 300
    assert share_of_one_case(study.ever(study.without_rule(faster), "slower")) > 0.06
    assert share_of_one_case(study.ever(faster, "slower")) <= 22 / 300
    assert share_of_one_case(study.ever(study.without_rule(gain), "within")) > 0.06
    assert share_of_one_case(study.ever(gain, "within")) <= 25 / 300
    assert share_of_one_case(study.noted(none, 24)) > 0.9
    assert share_of_one_case(study.noted(study.drawn(0.0, 300, 1.0), 24)) <= 9 / 300


def test_every_figure_of_the_page_keeps_the_error_levels() -> None:
    page = (ROOT / "docs/evidence.md").read_text()
    verdicts, _, _ = page.partition("\n### Carry-over\n")[2].partition("\nThe second table")
    rows = [line.strip("| ").split(" | ") for line in verdicts.splitlines() if line[:2] == "| "]
    wrong = {cells[0]: cells[1:] for cells in rows}
    for longer in study.LONGER:
        _, none, _, gain, _, loss = wrong[f"{100 * longer:g} %"]
        for shares, bound in ((none, 0.05), (gain, 0.01), (loss, 0.04)):
            for share, cases in zip(shares.split(", "), study.FAMILIES, strict=True):
                # If the bound is met, at most `nights` of 4,000 are wrong with P = 0.99.
                nights = stats.binom.ppf(0.99, study.NIGHTS, bound / cases)
                most = 1 - (1 - nights / study.NIGHTS) ** cases
                assert float(share) <= most + 0.0005
