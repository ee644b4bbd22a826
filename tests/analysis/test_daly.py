import math

import pytest
from scipy.optimize import brentq

from analysis.subjects.writers import optimum_interval_s
from nimc.base.errors import InputError


def exact_optimum(write_s: float, mtti_s: float) -> float:
    """Root of the condition for least waste, found numerically."""
    ratio = write_s / mtti_s
    return mtti_s * brentq(lambda tau: math.exp(-(tau + ratio)) - 1 + tau, 1e-9, 1.0, xtol=1e-14)


@pytest.mark.parametrize(
    ("ratio", "relative_error"),
    [(1e-5, 1e-9), (1e-3, 1e-6), (0.01, 2e-5), (0.1, 5e-4), (0.5, 0.01)],
)
def test_agrees_with_the_exact_optimum(ratio: float, relative_error: float) -> None:
    mtti_s = 20_000.0
    assert optimum_interval_s(ratio * mtti_s, mtti_s) == pytest.approx(
        exact_optimum(ratio * mtti_s, mtti_s), rel=relative_error
    )


def test_by_hand() -> None:
    # M = 50 s, d = 1 s: sqrt(100) = 10, sqrt(1/100)/3 = 1/30, (1/100)/9 = 1/900.
    assert optimum_interval_s(1.0, 50.0) == pytest.approx(10 * (1 + 1 / 30 + 1 / 900) - 1)


def test_outside_its_range_the_interval_is_the_mtti() -> None:
    assert optimum_interval_s(20.0, 10.0) == 10.0
    assert optimum_interval_s(19.99, 10.0) < 10.0


@pytest.mark.parametrize(
    ("write_s", "mtti_s"), [(0, 1), (1, 0), (-1, 1), (math.nan, 1), (1, math.inf)]
)
def test_refuses_what_is_not_a_length_of_time(write_s: float, mtti_s: float) -> None:
    with pytest.raises(InputError, match="allowed: above 0"):
        optimum_interval_s(write_s, mtti_s)
