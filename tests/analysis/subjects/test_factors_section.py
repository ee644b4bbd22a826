"""Tests slowdowns by levels of factors, with runs whose effects are known."""

from pathlib import Path

import pytest

from analysis.questions.question import answer
from analysis.report.data import RunData
from analysis.report.page import render
from analysis.subjects.factors_section import LEVELS, RATES
from records.sample import Level
from tests.analysis.drawn import shown, texts
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.subjects.made_levels import case_of_levels
from tests.analysis.synthetic import Case, loaded_run, samples


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    runs = swept(sweep(noise=0.0, transport="tcp"), pairs=6)
    return loaded_run(tmp_path_factory.mktemp("sweep") / "run", runs)


def loaded(folder: Path, case: Case) -> RunData:
    return loaded_run(folder / "run", samples(case, pairs=6))


def test_slowdowns_are_shown_over_the_rates_that_writers_reached(run: RunData) -> None:
    rows = answer(RATES, run).to_dicts()
    assert [(row["line"], row["level"]) for row in rows] == [
        (f"on@reserved_cores={cores}", rate)
        for cores in "01"
        for rate in ("25%", "50%", "75%", "full")
    ]
    # The rate is 12.8 GB/s without writes. With writes, a tenth of 0.5 x 0.9 x 8 GB/s is lost.
    half = rows[5]
    assert half["slowdown"] == pytest.approx(12.8 / (12.8 - 0.36))
    assert half["slowdown_low"] <= half["slowdown"] <= half["slowdown_high"]
    assert half["reached_b_s"] == pytest.approx(0.5 * 0.9 * 8e9, rel=0.02)
    assert (half["n"], half["baseline"]) == (6, "off@reserved_cores=1")
    assert answer(LEVELS, run).is_empty()


def test_the_picture_has_the_reached_rate_and_a_line_for_each_level(run: RunData) -> None:
    view = shown(RATES, run)
    (picture,) = view.pictures
    svg = picture.svg("s")
    # The axis ends at 0.9 times 8 GB/s, so it has the label 7, but neither 8 nor 100.
    assert {"on@reserved_cores=0", "on@reserved_cores=1", "7"} <= {*texts(svg)}
    assert not {"8", "100"} & {*texts(svg)}
    assert view.emulation_caveats


@pytest.mark.parametrize(
    ("factors", "factor", "lines", "labels"),
    [
        # The axis has the factor with most levels; if there are several, the first one.
        (
            {"place": ["nic", "other"], "load": ["read", "write", "copy"]},
            "load",
            ["on@place=nic", "on@place=other"],
            [""],
        ),
        ({"tool": ["none", "perf_stat"]}, "tool", ["on"], [""]),
        (
            {"one": ["x", "y"], "two": ["x", "y"], "three": ["x", "y"]},
            "one",
            ["on@two=x", "on@two=y"],
            ["three x", "three y"],
        ),
        # A factor with one level is left out.
        ({"fixed": ["x"], "tool": ["none", "perf_stat"]}, "tool", ["on"], [""]),
    ],
)
def test_the_factor_with_most_levels_is_on_the_axis(
    tmp_path: Path,
    factors: dict[str, list[Level]],
    factor: str,
    lines: list[str],
    labels: list[str],
) -> None:
    run = loaded(tmp_path, case_of_levels(factors))
    rows = answer(LEVELS, run).to_dicts()
    assert {row["factor"] for row in rows} == {factor}
    assert [*dict.fromkeys(row["line"] for row in rows)] == lines
    assert [*dict.fromkeys(row["at"] for row in rows)] == labels
    assert {row["arm"] for row in rows} == {row.arm for row in run.results if row.role == "effect"}


@pytest.mark.usefixtures("undrawn")
def test_a_table_of_more_than_24_rows_is_folded(tmp_path: Path) -> None:
    factors: dict[str, list[Level]] = {"amount": [*range(13)], "place": ["nic", "other"]}
    page = render([loaded(tmp_path, case_of_levels(factors))])
    text = page[page.index('id="r0by_level"') :].partition("</section>")[0]
    assert "<details><summary>All 26 rows</summary>" in text
    assert text.count("<tr>") == 1 + 26


@pytest.mark.parametrize(
    ("levels", "order"),
    [
        (["none", "perf_stat", "gprof"], ["none", "gprof", "perf_stat"]),
        ([False, True], ["false", "true"]),
        (["4KiB", "1MiB", "64KiB"], ["4KiB", "64KiB", "1MiB"]),
        ([1, 128, 2], ["1", "2", "128"]),
        (["10%", "5%", "full"], ["5%", "10%", "full"]),
        (["2GB/s", "500MB/s"], ["500MB/s", "2GB/s"]),
    ],
)
def test_levels_are_in_their_order(tmp_path: Path, levels: list[Level], order: list[str]) -> None:
    run = loaded(tmp_path, case_of_levels({"amount": levels}))
    assert answer(LEVELS, run)["level"].to_list() == order
