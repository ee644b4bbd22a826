"""The studies' tests of many nights at once are those of the program, night by night."""

from functools import partial

import numpy as np
import pytest

from analysis.statistics import looks
from analysis.statistics.carry_over import allowing, carry_over
from tests.studies.many import ManyNights
from tests.studies.noises import NOISES, nights

#: Statement -> the program's test, at a margin of 2 %.
TESTS = {
    "slower": looks.longer,
    "faster": looks.shorter_in_both,
    "within": partial(looks.outside, margin=0.02),
}


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("hypotheses", [1, 7])
def test_the_same_is_shown_of_many_nights_as_of_each(name: str, hypotheses: int) -> None:
    rng = np.random.default_rng(5)
    effect = {"slower": 1.012, "faster": 1 / 1.012, "within": 1.006}[name]
    times, after = nights(NOISES[0], rng, 25, 24, 0.01, effect)
    at_once = ManyNights(times, after).shown(name, hypotheses)
    level = {"slower": 0.04, "faster": 0.01, "within": 0.05}[name] / hypotheses
    one_by_one = []
    for night, late in zip(times, after > 0, strict=True):
        seen = []
        for look in looks.looks(24):
            so_far, before = night[: look.pairs], late[: look.pairs]
            carried = carry_over(so_far, before) if name != "slower" else None
            parts = allowing(carried, so_far, before)
            seen.append(all(looks.over_looks(part, TESTS[name]) <= level for part in parts))
        one_by_one.append(seen)
    assert at_once.tolist() == one_by_one
    assert 0 < at_once.mean() < 1
