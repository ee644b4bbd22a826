"""Ranking of nodes."""

import numpy as np
import pytest
from scipy import stats

from analysis.compare.node_ranks import NodeFigures, ranked

#: Six runs, in percent above the node's own level; their mean is 0 on a logarithmic scale.
_RUNS = (0.99, 1 / 0.99, 0.995, 1 / 0.995, 0.998, 1 / 0.998)


def node(name: str, level: float, better: str = "lower", case: str = "stream") -> NodeFigures:
    return NodeFigures(case, name, "s", better, [level * each for each in _RUNS])


def test_a_slow_node_is_first_and_named() -> None:
    nodes = [node(f"n{n}", 100 + 0.1 * n) for n in range(8)]
    rows = ranked([*nodes, node("n8", 108.0)])
    assert (rows[0].node, rows[0].runs, rows[0].text) == ("n8", 6, "slower by 7.6%")
    assert rows[0].value == pytest.approx(108.0, rel=1e-4)
    # Geometric mean of the others' medians is 100.35: 108 / 100.35.
    assert rows[0].ratio.value == pytest.approx(108 / 100.35, rel=1e-4)
    assert [row.text for row in rows[1:]] == [""] * 8


def test_for_rates_the_lowest_is_slowest() -> None:
    nodes = [node(f"n{n}", 100 + 0.1 * n, "higher") for n in range(8)]
    rows = ranked([*nodes, node("n8", 92.0, "higher")])
    assert rows[0].node == "n8"
    assert rows[0].text == "slower by 9.1%"  # 100.35 / 92 = 1.0908


def test_p_values_are_those_of_t_tests_adjusted_over_all_nodes() -> None:
    nodes = [node(f"n{n}", 100 + n / 10) for n in range(4)]
    p = []
    for n, each in enumerate(nodes):
        others = [np.log(np.median(other.values)) for m, other in enumerate(nodes) if m != n]
        own = np.log(each.values)
        tests = (stats.ttest_ind(own, others, equal_var=equal) for equal in (True, False))
        p.append(max(test.pvalue for test in tests))
    smallest = int(np.argmin(p))
    found = {row.node: row.p_adjusted for row in ranked(nodes)}
    assert found[f"n{smallest}"] == pytest.approx(min(1.0, 4 * p[smallest]))


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (101.5, ""),
        (102.1, "slower by 2.1%"),
        (98.1, ""),  # 1 / 1.0194
        (97.9, "faster by 2.1%"),
    ],
)
def test_differences_within_the_margin_are_not_named(time: float, text: str) -> None:
    rows = ranked([node("n0", time), *(node(f"n{n}", 100.0) for n in range(1, 8))], margin=0.02)
    (row,) = (row for row in rows if row.node == "n0")
    assert row.ratio.value == pytest.approx(time / 100, rel=1e-4)
    assert row.p_adjusted < 0.05
    assert row.text == text


def test_one_node_has_nothing_to_be_compared_with() -> None:
    (row,) = ranked([node("n0", 100.0)])
    assert (row.ratio, row.text) == (None, "")
