"""Tests the price of a tool: how much longer runs with it take. True prices are known."""

import pytest

from analysis.subjects.tool_prices import PRICES
from tests.analysis.made_counters import CASES, TOOL
from tests.analysis.subjects.made_causes import made_run, priced, rows


@pytest.mark.parametrize(("price", "beyond"), [(1.05, True), (0.9803, True), (0.9805, False)])
def test_a_tool_that_changes_the_figure_by_more_than_the_margin_is_named(tmp_path, price, beyond):
    (row,) = rows(priced(tmp_path, price), PRICES)
    assert (row["tool"], row["word"] == "changed by the tool") == ("p", beyond)
    # Only pairs of the made runs vary, which cancels in the ratio.
    assert row["ratio"] == pytest.approx(price)


def test_a_tool_without_runs_without_it_has_no_price(tmp_path):
    (row,) = rows(made_run(tmp_path), PRICES)
    assert (row["case"], row["tool"], row["ratio"], row["n"]) == ("lammps", TOOL, None, 0)
    assert row["word"] == "inconclusive"


def test_tools_are_listed_in_the_order_of_the_cases(tmp_path):
    """It is the order of the files of counts, which are named after cases."""
    listed = [row["case"] for row in rows(made_run(tmp_path, CASES), PRICES)]
    assert listed == sorted(case.name for case in CASES)
