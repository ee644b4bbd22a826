"""Evidence of a change, its limit, the detectable change, and when a level began, by hand."""

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from scipy import special, stats

from analysis.history import monitor
from analysis.history.expected import UNKNOWN, Expectation
from analysis.history.monitor import Baseline, Followed, evidence, largest, new_nights
from analysis.history.tables import Series
from tests.analysis.history.nights_table import START

#: Nothing is known: the normal density, and that of outliers, 0.001.
NORMAL = monitor.density(np.zeros(0))
#: Log likelihood ratio of a score of 2 for a step of 1, 2 or 3. The normal density is 0.398942 at
#: 0, 0.241971 at 1 and 0.053991 at 2: ln((0.294295 + 0.001) / 0.054991).
OF_TWO = 1.68081


def ratio(score: float, left: float = 1.0) -> float:
    """The same of any score, with the share `left` of the step; scores are seen to 0.02."""
    density = [math.exp(-((score - step * left) ** 2) / 2) / 2.5066283 for step in range(4)]
    return math.log((sum(density[1:]) / 3 + 0.001) / (density[0] + 0.001))


def test_evidence_by_hand() -> None:
    # At 5: ln(((0.000134 + 0.004432 + 0.053991) / 3 + 0.001) / 0.0010015); at 100 all are outliers.
    found = evidence(np.array([2.0, 0.0, 5.0, 100.0]), 1.0, NORMAL)
    assert found == pytest.approx([OF_TWO, -1.37490, 3.01988, 0.0], abs=1e-4)
    assert evidence(np.array([-2.0]), -1.0, NORMAL) == pytest.approx(OF_TWO, abs=1e-4)
    assert ratio(2.0) == pytest.approx(OF_TWO, abs=1e-4)


def test_one_night_is_less_than_the_least_limit_however_bad() -> None:
    # Nights that hardly differ have a density of more than 0.001 exp(5) beside their level.
    for usual in (NORMAL, monitor.density(np.linspace(-0.1, 0.1, 4000))):
        assert evidence(np.linspace(0, 50, 5001), 1.0, usual).max() < monitor.LEAST_LIMIT


def test_the_density_of_nights_is_learnt() -> None:
    drawn = stats.lognorm(0.6)
    nights = (drawn.ppf((np.arange(4000) + 0.5) / 4000) - drawn.mean()) / drawn.std()
    usual, at = monitor.density(nights), np.array([-2.0, -0.5, 0.0, 1.0, 2.0, 4.0])
    known = drawn.pdf(at * drawn.std() + drawn.mean()) * drawn.std()
    assert usual[np.searchsorted(monitor._GRID, at - 1e-9)] == pytest.approx(known, abs=0.03)
    # Their longer tail is worse: a score of 2.5 is less evidence than of normal nights. One of -2.5
    # is below all: as much as a night can be.
    none, *steps = drawn.pdf((2.5 - np.arange(4)) * drawn.std() + drawn.mean()) * drawn.std()
    by_hand = math.log((sum(steps) / 3 + 0.001) / (none + 0.001))
    assert evidence(np.array(2.5), 1.0, usual) == pytest.approx(by_hand, abs=0.1)
    assert by_hand < ratio(2.5) - 0.2
    assert evidence(np.array(-2.5), -1.0, usual) == 4.5


def test_evidence_of_n_nights_is_less_by_what_is_not_known_of_their_level() -> None:
    rest = np.array([2.0, 2.0])
    assert largest(rest, 0.0, 0.0, NORMAL) == pytest.approx(2 * OF_TWO, abs=1e-4)
    assert largest(rest, 0.0, 0.1, NORMAL) == pytest.approx(2 * OF_TWO / 1.2, abs=1e-4)
    # A correlation of 0.6 leaves sqrt(0.4 / 1.6) = 0.5 of the step, and a quarter of the variance.
    found = largest(np.array([1.0, 1.0]), 0.6, 0.1, NORMAL)
    assert found == pytest.approx(2 * ratio(1.0, 0.5) / 1.05, abs=1e-4)


#: Two sets of nodes, 3 spreads of 0.01 apart, each known well.
KNOWN = Expectation(
    day=START.toordinal(),
    level=0.0,
    spread=0.01,
    correlation=0.0,
    swing=np.zeros(4),
    covariance=np.zeros((4, 4)),
    nodes={"n1": (0.0, 10**9), "n2": (0.03, 10**9)},
    of_nodes=2.25,
    rest=np.zeros(60),
    likelihood=UNKNOWN,
)


def followed(
    scores: list[float],
    *,
    limit: float,
    expected: Expectation = KNOWN,
    nodes: list[str] | None = None,
    days: list[int] | None = None,
) -> Followed:
    """A series with this baseline after its nights, which have these scores on the node n1."""
    series = Series(
        **{"machine": "hpc", "campaign": "nightly", "case": "stream", "arm": "on"},
        **{"quantity": "fom", "unit": "s", "better": "lower"},
        nights=[START + timedelta(day) for day in days or range(len(scores))],
        worse=0.01 * np.array(scores),
        runs=[f"run{each}" for each in range(len(scores))],
        nodes=[[each] for each in nodes or ["n1"] * len(scores)],
    )
    found = Followed(series, baseline=Baseline(expected, NORMAL, limit, 0, 0))
    found.look(series.nights[-1].toordinal() + 1)
    return found


def test_a_change_is_found_at_the_limit_and_not_below_it() -> None:
    scores = [-1.0, 2.0, 2.0, 2.0]
    (found,) = followed(scores, limit=3 * OF_TWO - 0.001).found
    assert (found.noticed, found.since, found.worse) == (3, 1, True)
    assert followed(scores, limit=3 * OF_TWO + 0.001).found == []
    (better,) = followed([-each for each in scores], limit=3 * OF_TWO - 0.001).found
    assert (better.noticed, better.since, better.worse) == (3, 1, False)


def test_the_sum_of_evidence_starts_anew_at_zero() -> None:
    # Scores of 0 and -3 are evidence against a step, a score of 1 is little, but a night more.
    for before in ([], [0.0], [2.0, -3.0, -3.0]):
        seen = followed([*before, 2.0, 1.0], limit=1e3)
        assert seen.evidence[0] == pytest.approx(OF_TWO + ratio(1.0), abs=1e-4)
        assert seen.state[1][0] == 2


def test_three_nights_in_a_row_beyond_four_spreads_are_a_change() -> None:
    (found,) = followed([0.0, 9.0, 30.0, 9.0], limit=1e3).found
    assert (found.noticed, found.since, found.worse) == (3, 1, True)
    assert not followed([-9.0, -9.0, -9.0], limit=1e3).found[0].worse
    for scores in ([9.0, 9.0, 3.9], [9.0, 9.0, 3.9, 9.0], [9.0, 9.0, -9.0]):
        assert followed(scores, limit=1e3).found == []


def test_a_night_is_compared_with_the_level_of_its_nodes() -> None:
    # 5 spreads on n2 are 2 above its level, 5 below it on n1 are 8.
    seen = followed([5.0, 2.0], nodes=["n2", "n1"], limit=1e3)
    assert seen.evidence.tolist() == pytest.approx([2 * OF_TWO, 0.0], abs=1e-4)
    assert followed([0.0], nodes=["n2"], limit=1e3).evidence[1] == pytest.approx(
        ratio(3.0), abs=1e-4
    )


def test_nights_on_nodes_that_nothing_is_known_of_are_little_evidence() -> None:
    # Their level varies by sqrt(2.25) spreads: one night counts 1 + 2.25 times less.
    seen = followed([2.0], nodes=["n3"], limit=1e3)
    assert seen.evidence[0] == pytest.approx(OF_TWO / 3.25, abs=1e-4)
    # 7 spreads are 7 / sqrt(3.25) = 3.9, 7.5 are 4.2.
    assert followed([7.0] * 3, nodes=["n3"] * 3, limit=1e3).found == []
    assert followed([7.5] * 3, nodes=["n3"] * 3, limit=1e3).found != []


def test_what_a_night_owes_to_the_one_before_is_no_evidence() -> None:
    # With a correlation of 0.5 the second night is (2 - 1) / sqrt(0.75) = 1.1547, and
    # sqrt(0.5 / 1.5) = 0.57735 of the step are left.
    second = ratio(1.1547, 0.57735)
    correlated = replace(KNOWN, correlation=0.5)
    seen = followed([2.0, 2.0], limit=1e3, expected=correlated)
    assert seen.evidence[0] == pytest.approx(ratio(2.0, 1.0) + second, abs=0.02)
    # On nodes of unknown level its variance is 2.25 (1 - 0.5) / (1 + 0.5) = 0.75 for two nights.
    unknown = followed([2.0, 2.0], limit=1e3, expected=correlated, nodes=["n3", "n3"])
    assert unknown.evidence[0] == pytest.approx((OF_TWO + second) / 2.5, abs=0.02)
    # Two days apart they correlate by 0.25: (2 - 0.5) / sqrt(0.9375) = 1.5492 and
    # sqrt(0.75 / 1.25) = 0.7746 of the step.
    later = followed([2.0, 2.0], limit=1e3, expected=correlated, days=[0, 2])
    assert later.evidence[0] == pytest.approx(OF_TWO + ratio(1.5492, 0.7746), abs=0.02)


def test_nights_that_are_evidence_of_a_change_are_no_baseline() -> None:
    seen = followed([-1.0] * 40 + [2.0, 2.0], limit=1e3)
    assert seen.window() == slice(0, 40)
    # At most the last 30, so that what is expected follows again.
    assert followed([1.5] * 70, limit=1e3).window() == slice(0, 40)


@pytest.mark.parametrize(
    ("scores", "nights"),
    [
        # Sums from the last on by the root of their number: 2, 4/1.41 = 2.83, 4/1.73 = 2.31, 2.
        ([0.0, 0.0, 2.0, 2.0], 2),
        # 3, 4/1.41 = 2.83, 6/1.73 = 3.46, 5.5/2 = 2.75, 5.5/2.24 = 2.46.
        ([0.0, -0.5, 2.0, 1.0, 3.0], 3),
        # An outlier counts as 4: 2, 2.83, 4/1.73, 4/2, 4/2.24, 8/2.45 = 3.27 are less than 8/2.45.
        ([1e6, -3.0, 0.0, 0.0, 2.0, 2.0], 2),
    ],
)
def test_when_a_level_began(scores: list[float], nights: int) -> None:
    assert new_nights(np.array(scores)) == nights


def normal(nights: int) -> np.ndarray:
    """Quantiles of the normal distribution: no sample's chance."""
    return np.asarray(special.ndtri((np.arange(nights) + 0.5) / nights))


def limit_of(rest: np.ndarray, *, series: int = 36) -> float:
    """For one false alarm a machine and year."""
    known = [replace(KNOWN, rest=rest)] * series
    limits = [monitor.common_limit(known, NORMAL, 1 / 365, seed=seed) for seed in range(4)]
    return float(np.mean(limits))


def test_the_limit_gives_the_false_alarms_that_were_asked_for() -> None:
    """Page's rule on 4000 series of 600 normal nights, with the limit of 36 of them."""
    nights = np.random.default_rng(4).standard_normal((600, 4000))
    limit = limit_of(normal(3000))
    sums, alarms = np.zeros(4000), 0
    for scores in nights:
        none, *steps = (np.exp(-((scores - step) ** 2) / 2) / 2.5066283 for step in range(4))
        sums = np.maximum(0, sums + np.log((sum(steps) / 3 + 0.001) / (none + 0.001)))
        alarms += int((sums >= limit).sum())
        sums[sums >= limit] = 0
    # One a year of 36 series is one in 13,140 nights.
    assert 0.8 < alarms / (nights.size / (36 * 365)) < 1.6


def test_short_baselines_outliers_and_more_series_have_a_higher_limit() -> None:
    usual, spoilt = limit_of(normal(3000)), normal(3000)
    spoilt[::50] = 4.0
    assert min(limit_of(rest) for rest in (normal(30), spoilt)) > usual + 0.4
    # By theory six times as many series raise it by ln(6) = 1.8.
    assert usual - limit_of(normal(3000), series=6) == pytest.approx(1.8, abs=0.4)


def test_the_detectable_change_by_theory() -> None:
    # Evidence of a score is 2 (score - 1). For a limit of 8 the sum of five normal scores less 1
    # each has to reach 4, for 80 % with a shift d: 5 (d - 1) - 0.84 sqrt(5) = 4, d = 2.18; a little
    # less since the sum may reach it before.
    known = replace(KNOWN, rest=np.random.default_rng(7).standard_normal(4000))
    assert 1.95 <= monitor.detectable_spreads(known, NORMAL, 8.0, seed=1) <= 2.45
    assert monitor.detectable_spreads(known, NORMAL, 12.0, seed=1) > 2.6


def test_what_no_evidence_finds_in_five_nights_is_found_by_three_extreme_ones() -> None:
    known = replace(KNOWN, rest=np.random.default_rng(8).standard_normal(400))
    # Of five nights with a step of 5.1 and normal noise, three in a row are beyond 4 in 83 %:
    # p = 0.8643, p^3 (1 + 2 (1 - p)) = 0.8208.
    assert monitor.detectable_spreads(known, NORMAL, 1e3, seed=1) == pytest.approx(5.1)
