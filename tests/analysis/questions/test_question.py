"""Tests the engine that answers questions, which are sections of the report.

Groups, estimates, words and figures are worked out by hand.
"""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pytest

from analysis.questions.estimators import difference, median, ratio, ratio_of_sets
from analysis.questions.presentation import (
    cached_answer,
    figure_texts,
    layout_by_column_key,
    layout_by_row,
    section,
)
from analysis.questions.question import Limit, Question, answer, shared
from analysis.statistics.interval import Estimate
from tests.analysis.synthetic import LAMMPS, loaded_run, samples


def first_value(rows):
    """Return the group's first value, with an interval of 10 % to either side.

    Returns None if the value is negative.
    """
    value = rows["value"][0]
    return Estimate(value, value * 0.9, value * 1.1) if value > 0 else None


def made_question(rows, **more):
    return Question(
        name="made",
        title="Made",
        text="",
        rows=lambda _: rows,
        by=("case",),
        estimates={"value": first_value},
        **more,
    )


ROWS = pl.DataFrame({"case": ["a", "b", "a", "c"], "value": [2.0, 1.0, 5.0, -1.0]})
LIMITS = (
    Limit(word="loud", condition=pl.col("case") == "b", why="since b"),
    Limit(word="high", low=1.5),
    Limit(word="low", high=1.5),
)


def test_a_group_is_a_row_with_its_count_in_the_order_of_the_rows():
    table = answer(made_question(ROWS, facts={"most": pl.col("value").max()}), None)
    assert table.rows() == [
        ("a", 2, 2.0, 1.8, 2.2, 5.0),
        ("b", 1, 1.0, 0.9, 1.1, 1.0),
        ("c", 1, None, None, None, -1.0),
    ]
    assert table.columns == ["case", "n", "value", "value_low", "value_high", "most"]
    # A fact named `n` replaces the count.
    above_4 = {"n": pl.col("value").filter(pl.col("value") > 4).len()}
    assert answer(made_question(ROWS, facts=above_4), None)["n"].to_list() == [1, 0, 0]
    assert answer(made_question(ROWS.clear()), None).is_empty()


def test_the_first_limit_that_is_met_gives_the_word_and_without_an_interval_none_is():
    table = answer(made_question(ROWS, limits=LIMITS), None)
    assert dict(table.select("case", "word").iter_rows()) == {
        "a": "high",
        "b": "loud",
        "c": "inconclusive",
    }
    assert table["why"].to_list() == ["", "since b", "1, fewer than 6 pairs"]


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.8, math.inf, "in"),  # the interval is 1.8 to 2.2
        (1.81, math.inf, "inconclusive"),
        (-math.inf, 2.2, "in"),
        (1.9, 2.1, "inconclusive"),
    ],
)
def test_the_whole_interval_must_lie_within_the_bounds(low, high, word):
    table = answer(
        made_question(ROWS.head(1), limits=(Limit(word="in", low=low, high=high),)), None
    )
    assert table["word"].to_list() == [word]


def test_postprocess_sees_all_rows_before_the_words_are_chosen():
    table = answer(
        made_question(
            ROWS,
            postprocess=lambda rows: rows.with_columns(
                biggest=pl.col("value") == pl.col("value").max()
            ),
            limits=(Limit(word="biggest", condition=pl.col("biggest")),),
        ),
        None,
    )
    assert table["word"].to_list() == ["biggest", "inconclusive", "inconclusive"]


def test_rows_without_a_key_are_a_group():
    rows = pl.DataFrame({"case": [None, "a", None], "value": [1.0, 2.0, 3.0]})
    table = answer(made_question(rows, facts={"least": pl.col("value").min()}), None)
    assert table.select("case", "n", "least").rows() == [(None, 2, 1.0), ("a", 1, 2.0)]


def test_a_column_without_values_is_a_column_of_numbers():
    rows = ROWS.with_columns(lost=None)
    table = answer(made_question(rows, facts=shared("lost")), None)
    assert table["lost"].to_list() == [None] * 3
    headings, numeric, cells = layout_by_row(made_question(rows, columns=("lost",)), table)
    assert dict(zip(headings, numeric, strict=True))["lost"]
    assert {row[-1] for row in cells} == {("\u2013", "")}


def test_a_key_may_be_spread_over_the_columns_of_the_table():
    rows = pl.DataFrame(
        {"case": ["a", "a", "b"], "arm": ["off", "on", "on"], "value": [0.25, 300.0, 2.0]}
    )
    question = Question(
        name="made",
        title="Made",
        text="",
        rows=lambda _: rows,
        by=("case", "arm"),
        facts={
            "value": pl.col("value").first(),
            "unit": pl.when(pl.col("value") < 1).then(pl.lit("1")).otherwise(pl.lit("B")).first(),
            "state": pl.lit("short").first(),
        },
        columns=("state",),
        units={"value": "unit"},
        column_key="arm",
        plot=None,
    )
    headings, numeric, cells = layout_by_column_key(question, answer(question, None))
    assert (headings, numeric) == (["case", "off", "on"], [False, True, True])
    assert cells == [
        [("a", ""), ("25.00 %", "short"), ("300.0 B", "short")],
        [("b", ""), ("", ""), ("2.000 B", "short")],
    ]


def test_rows_of_a_picture_have_long_names_in_several_lines():
    """A long name is broken at commas and spaces, so that all of it is within the picture."""
    name = f"on@{'f' * 30},{'w' * 30} tool"
    rows = pl.DataFrame({"case": [name], "value": [2.0]})
    run = SimpleNamespace(cached=lambda _, work: work(), emulation_caveats=lambda _: [])
    view = section(made_question(rows), "before_cases", 1).make_view(run)
    (picture,) = view.pictures
    svg = picture.svg("s")
    assert [f"on@{'f' * 30},", "w" * 30 + " tool"] == re.findall(r">([^<]*(?:ff|ww)[^<]*)<", svg)


@pytest.mark.parametrize("names", [["", ""], ["left", "right"]])
def test_lines_have_a_legend_if_they_have_names(names):
    rows = pl.DataFrame({"case": names, "rate": [1.0, 2.0], "value": [1.0, 2.0]})
    question = replace(
        made_question(rows, plot="lines", plot_columns=("rate", "case")), by=("rate", "case")
    )
    run = SimpleNamespace(cached=lambda _, work: work(), emulation_caveats=lambda _: [])
    (picture,) = section(question, "before_cases", 1).make_view(run).pictures
    svg = picture.svg("s")
    assert re.findall(">(left|right)<", svg) == list(filter(None, names))


# Estimators. Exact values give exact estimates; five rows give no estimate.


def pairs(count, factor, shift=0.0):
    base = [float(number) for number in range(1, count + 1)]
    return pl.DataFrame({"value": [factor * number + shift for number in base], "against": base})


@pytest.mark.parametrize(("n_estimates", "note"), [(40, ""), (59, " 48 of 59 rows are drawn; ")])
def test_a_picture_tells_how_many_of_the_rows_with_an_estimate_it_has(tmp_path, n_estimates, note):
    """There are 60 rows. Those without an estimate cannot be drawn."""
    values = [1.0 if case < n_estimates else -1.0 for case in range(60)]
    rows = pl.DataFrame({"case": [f"case {case}" for case in range(60)], "value": values})
    run = loaded_run(tmp_path / "run", samples(LAMMPS, pairs=6))
    (picture,) = section(made_question(rows), "before_cases", 1).make_view(run).pictures
    assert ("are drawn" in picture.caption) == bool(note)
    assert note in picture.caption


def test_the_ratio_within_pairs_does_not_depend_on_differences_between_pairs():
    rows = pairs(8, 1.25)
    exact = pytest.approx((1.25, 1.25, 1.25))
    again = rows.with_columns(again=pl.col("against"))
    none = rows.with_columns(again=pl.lit(None, pl.Float64))
    # Each block has its own typical baseline.
    blocks = rows.with_columns(block=pl.Series([0] * 4 + [1] * 4))
    for estimator, frame in (
        (ratio("value", "against"), rows),
        (ratio("value", "against"), blocks),
        (ratio("value", "against", "again"), again),
        (ratio("value", "against", "again"), none),
    ):
        estimate = estimator(frame)
        assert (estimate.low, estimate.value, estimate.high) == exact


@pytest.mark.parametrize("shift", [3.0, -0.5, 0.0])
def test_the_difference_within_pairs(shift):
    assert difference("value", "against")(pairs(8, 1.0, shift)).value == pytest.approx(shift)


@pytest.mark.parametrize("estimator", [ratio, difference])
def test_five_pairs_in_which_both_runs_count_give_no_estimate(estimator):
    assert estimator("value", "against")(pairs(5, 1.25)) is None
    seven = pairs(7, 1.25).with_columns(against=pl.when(pl.col("against") > 2).then("against"))
    assert estimator("value", "against")(seven) is None


@pytest.mark.parametrize(
    ("others", "ratio"), [([2.0] * 6, 3.0), ([2.0] * 7, 3.0), ([2.0] * 5, None), (None, None)]
)
def test_ratios_of_sets_need_six_runs_in_each_set(others, ratio):
    rows = pl.DataFrame({"value": [6.0] * 6, "against": [others] * 6})
    estimate = ratio_of_sets("value", "against")(rows)
    assert (estimate and estimate.value) == ratio
    assert ratio_of_sets("value", "against")(rows.head(5)) is None


def test_the_median_has_the_extremes_of_six_as_its_interval():
    values = pl.DataFrame({"value": [1.0, 2.0, 3.0, 5.0, 8.0, 13.0, None]})
    assert median("value")(values) == Estimate(4.0, 1.0, 13.0)


@pytest.mark.parametrize(
    ("name", "value", "ends", "shown"),
    [
        ("ratio", 1.23456, (1.2, 1.3), ("1.23", "1.20 to 1.30")),
        ("ratio", 1.23456, (), ("1.235", "")),
        ("ratio", 1.23456, (None, None), ("1.235", "")),
        ("load_b_s", 12.3e9, (11.1e9, 13.9e9), ("12.3 GB/s", "11.1 to 13.9")),
        ("cpu_s_b", 0.1203e-9, (0.118e-9, 0.1229e-9), ("0.1203", "0.1180 to 0.1229")),
        ("cpu_s_b", 0.0, (-1e-15, 0.0004e-9), ("0.00000", "0.00000 to 0.00040")),
        ("latency_s", 4e-7, (4e-7, 4.0000001e-7), ("400.0 ns", "400.0 to 400.0")),
        ("rank", 7, (), ("7", "")),
        ("share", 0.2003, (0.199, 0.2009), ("20.03 %", "19.90 to 20.09")),
        ("r", -0.04, (-0.83, 0.8), ("-0.040", "-0.83 to 0.80")),
        ("p", 0.0116, (), ("0.012", "")),
        ("p", 1e-12, (), ("< 0.001", "")),
        ("value", None, (None, None), ("\u2013", "")),
    ],
)
def test_figures_have_the_unit_of_their_name_and_the_decimals_of_their_interval(
    name, value, ends, shown
):
    assert figure_texts(name, value, *ends) == shown


def test_a_question_is_answered_once_per_run(tmp_path):
    run = loaded_run(tmp_path / "run", samples(LAMMPS, pairs=2))
    read_runs = []
    question = replace(made_question(ROWS), rows=lambda run: read_runs.append(run) or ROWS)
    assert cached_answer(question, run) is cached_answer(question, run)
    assert read_runs == [run]
    # A run with other results has other answers.
    assert cached_answer(question, replace(run, results=[])).equals(cached_answer(question, run))
    assert len(read_runs) == 2
