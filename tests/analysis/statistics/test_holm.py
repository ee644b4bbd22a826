import pytest

from analysis.statistics.interval import holm


def test_by_hand():
    # Sorted: 0.005 x 4, 0.01 x 3, 0.03 x 2 = 0.06, 0.04 x 1 = 0.04 -> no smaller than 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize(("p", "adjusted"), [([], []), ([0.2], [0.2]), ([0.6, 0.7], [1.0, 1.0])])
def test_edges(p, adjusted):
    assert holm(p) == adjusted
