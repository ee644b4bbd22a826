"""Tests that the studies, which test many nights at once, agree with the program for each night."""

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.statistics import evidence
from analysis.statistics.aligned_ranks import Values
from analysis.statistics.carry_over import carry_over, without_carry_over
from tests.studies.many import ManyNights
from tests.studies.noises import NOISES, nights


def p_value(name: str, log_times: Values, after: NDArray[np.bool_]) -> float:
    """Return the program's p value of a statement, with a margin of 2 %."""
    smallest, largest = without_carry_over(carry_over(log_times, after), log_times, after)
    if name == "slower":
        return evidence.p_over_interims(smallest, evidence.p_longer)
    if name == "faster":
        return evidence.p_over_interims(largest, evidence.p_typical_and_mean_shorter)
    losses = np.stack([smallest, largest], axis=1)
    return evidence.p_over_interims(
        losses, lambda times: evidence.p_outside_margin_between_bounds(times, 0.02)
    )


@pytest.mark.parametrize("name", ["slower", "faster", "within"])
@pytest.mark.parametrize("hypotheses", [1, 7])
def test_many_nights_at_once_show_the_same_as_each_night(name: str, hypotheses: int) -> None:
    rng = np.random.default_rng(5)
    effect = {"slower": 1.012, "faster": 1 / 1.012, "within": 1.006}[name]
    times, after = nights(NOISES[0], rng, 25, 24, 0.01, effect)
    at_once = ManyNights(times, after).shown(name, hypotheses)
    level = {"slower": 0.04, "faster": 0.01, "within": 0.05}[name] / hypotheses
    one_by_one = [
        [
            p_value(name, night[: interim.pairs], late[: interim.pairs]) <= level
            for interim in evidence.interim_analyses(24)
        ]
        for night, late in zip(times, after > 0, strict=True)
    ]
    assert at_once.tolist() == one_by_one
    assert 0 < at_once.mean() < 1
