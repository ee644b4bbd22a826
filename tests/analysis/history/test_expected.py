"""What is expected of a night: node sets by hand, correlation and swing of made nights."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.history.expected import UNKNOWN, common, expectation, node_effects

DAY = 400


def expected_of(values: np.ndarray, nodes: list[str] | None = None):
    days = np.arange(DAY - len(values), DAY, dtype=float)
    return expectation(values, days, nodes or ["n1"] * len(values), DAY)


def value(found, day: int, nodes: str = "n1") -> float:
    return float(found.value(np.array([day]), [nodes])[0])


def variance(found, day: int, nodes: str = "n1") -> float:
    return float(found.variance(np.array([day]), [nodes])[0])


def correlated(correlation: float, nights: int = 400, seed: int = 1) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal(nights)
    for night in range(1, nights):
        found[night] *= np.sqrt(1 - correlation**2)
        found[night] += correlation * found[night - 1]
    return found


def test_sets_of_nodes_by_hand() -> None:
    # Means 1 and 11 around 6; within 4/2 = 2; between (2 * 25 + 2 * 25) / 1 - 2 = 98, of 2 nights
    # a set: 49 = 24.5 * 2. Two nights show 49/50 of the 5.
    effects, share = node_effects(np.array([0.0, 2.0, 10.0, 12.0]), np.array([0, 0, 1, 1]))
    assert effects == pytest.approx([-4.9, 4.9])
    assert share == pytest.approx(24.5)


@pytest.mark.parametrize(
    ("values", "sets"),
    [([0.0, 12.0, 1.0, 11.0], [0, 0, 1, 1]), ([0.0, 1.0], [0, 1]), ([0.0, 1.0], [0, 0])],
)
def test_sets_that_differ_no_more_than_nights_have_no_effect(values, sets) -> None:
    effects, share = node_effects(np.array(values), np.array(sets))
    assert (effects.tolist(), share) == ([0.0] * (max(sets) + 1), 0.0)


def test_the_level_of_nodes_is_expected_of_their_nights() -> None:
    noise = 0.01 * correlated(0.0, 100)
    nodes = ["n1", "n2", "n2", "n1", "n2"] * 20
    found = expected_of(5 + noise + 0.03 * (np.array(nodes) == "n2"), nodes)
    assert found.spread == pytest.approx(0.01, rel=0.2)
    apart = value(found, DAY, "n2") - value(found, DAY)
    assert apart == pytest.approx(0.03, abs=0.006)
    # Of 60 nights of n2 the level is known to 1/60 of a night's variance, of n3 nothing is.
    assert variance(found, DAY, "n3") > 1 > 0.1 > variance(found, DAY, "n2")


def test_independent_nights_have_their_mean_and_deviation() -> None:
    values = 5 + 0.5 * correlated(0.0)
    found = expected_of(values)
    assert found.correlation < 0.12
    assert found.spread == pytest.approx(values.std(), rel=0.02)
    assert value(found, DAY) == pytest.approx(5, abs=0.15)
    # At least that of a mean of 400 nights.
    assert 1 / 400 < variance(found, DAY) < 0.05


def test_correlation_of_nights_is_found_and_taken_out() -> None:
    found = expected_of(correlated(0.6, seed=3))
    assert found.correlation == pytest.approx(0.6, abs=0.1)
    assert found.spread == pytest.approx(1, rel=0.2)
    rest = found.rest
    assert abs(float(np.corrcoef(rest[1:], rest[:-1])[0, 1])) < 0.1
    assert float(rest.std()) == pytest.approx(1, rel=0.15)


def test_a_slow_swing_is_followed() -> None:
    """A sine of two spreads that is steepest in the following weeks."""
    days = np.arange(DAY + 15)
    swing = 2 * np.sin(2 * np.pi * (days - DAY) / 365.25)
    found = expected_of((swing + correlated(0.0, DAY + 15))[:DAY])
    assert value(found, DAY + 14) == pytest.approx(swing[DAY + 14], abs=0.35)
    month, error = found.swung(30)
    assert month == pytest.approx(swing[DAY] - swing[DAY - 30], abs=0.3)
    assert error < 0.2
    year, error = found.swung(365)
    assert abs(year) < 2.5 * error


def test_a_swing_by_hand() -> None:
    found = replace(expected_of(correlated(0.0, 60)), spread=0.5)
    line = replace(found, swing=np.array([0, 0.1, 0, 0]), covariance=np.diag([1.0, 0.04, 0, 0]))
    # 30 days are 0.082136 years, of 0.1 and with an error of 0.5 * 0.2 a year.
    assert line.swung(30) == pytest.approx((0.0082136, 0.0082136), abs=1e-6)
    assert value(line, DAY + 30) - value(line, DAY) == pytest.approx(0.0082136, abs=1e-6)
    # Half a year: cos(180 degrees) - 1 = -2.
    wave = replace(found, swing=np.array([0, 0, 0.1, 0]))
    assert value(wave, DAY) - wave.swung(0)[0] == found.level
    half = value(wave, DAY + 183) - found.level
    assert half == pytest.approx(-0.2, abs=1e-4)


def test_outliers_move_nothing() -> None:
    values = 5 + 0.5 * correlated(0.0, 100, seed=2)
    spoilt = values.copy()
    spoilt[::20] += 1000.0
    found = expected_of(spoilt)
    assert abs(value(found, DAY) - value(expected_of(values), DAY)) < 0.25
    assert 0.4 < found.spread < 0.8


def test_a_series_that_never_varies_has_a_level() -> None:
    found = expected_of(np.full(40, 7.0))
    assert value(found, DAY) == pytest.approx(7.0)
    assert found.spread > 0
    assert np.isfinite(found.rest).all()


def test_what_is_common_on_a_machine_decides_where_a_series_says_little() -> None:
    """Of 30 nights a correlation of 0.6 is hardly seen; other series of 400 nights have it."""
    others = [expected_of(correlated(0.6, seed=seed)).likelihood for seed in range(3, 9)]
    likely = common(others)
    assert likely.sum() == pytest.approx(1)
    assert likely.sum(axis=1) @ np.arange(9) / 10 == pytest.approx(0.6, abs=0.06)
    days, errors = np.arange(30.0), []
    for seed in range(20, 40):
        few = correlated(0.6, seed=seed)[-30:]
        found = (expectation(few, days, ["n1"] * 30, 30, each) for each in (UNKNOWN, likely))
        errors.append([abs(each.correlation - 0.6) for each in found])
    alone, among = np.mean(errors, axis=0)
    assert among < 0.6 * alone
