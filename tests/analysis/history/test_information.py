"""The information of a night with a loss, which Lorden's bound in docs/evidence.md rests on."""

import numpy as np
import pytest

from studies.alarms import NOISES


def test_information_of_a_night_with_a_loss_by_another_tool() -> None:
    from scipy import integrate, stats

    noises = {noise.name: noise.information(2.0) for noise in NOISES}
    # Normal: 2^2 / 2; a correlation of 0.6 leaves 0.4 / 1.6 of it.
    assert noises["independent normal"] == pytest.approx(2.0, rel=1e-4)
    assert noises["AR(1) 0.6"] == pytest.approx(0.5, rel=1e-4)
    drawn = stats.lognorm(0.6)
    loss = 2 * drawn.std()

    def of(value: float) -> float:
        with_loss = drawn.logpdf(value - loss)
        return float(np.exp(with_loss) * (with_loss - drawn.logpdf(value)))

    expected = integrate.quad(of, loss + 1e-6, 60, points=[loss + 1, loss + 5])[0]
    assert noises["log-normal, 0.6"] == pytest.approx(expected, rel=1e-3)
