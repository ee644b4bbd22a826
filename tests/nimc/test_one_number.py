"""A figure is the same in the terminal, on the page, in pictures, JSON, tables and advice."""

import html
import re
from dataclasses import replace
from statistics import mean, median, stdev

import polars as pl
import pytest

from analysis.effects.estimate import reported_figures
from analysis.history.nights import nights_of, read_results
from analysis.report.data import load_run
from tests.analysis.synthetic import STREAM, header, reject, samples, write_run

#: A value and its interval: `1.39 [1.30, 1.50]`, `39.1 (30.2 to 49.6)`.
_FIGURE = r"([\d.]+)\w* [\[(]([\d.]+)(?:,| to) ([\d.]+)[\])]"


def figure(text: str, before: str, after: str = "") -> tuple[float, ...]:
    """Return the only figure with an interval that is between these words in a text."""
    (numbers,) = set(re.findall(f"{before}{_FIGURE}{after}", text))
    return tuple(map(float, numbers))


@pytest.mark.slow
def test_terminal_page_json_and_advice_show_the_same_slowdown(tmp_path, command):
    # Runs drift, and some are much slower. So mean, typical run and medians differ.
    case = replace(STREAM, noise=0.02, pair_noise=0.2)
    slow = {("on", 2), ("on", 7)}
    run_samples = [
        replace(sample, fom=sample.fom / 1.5) if (sample.arm, sample.pair) in slow else sample
        for sample in samples(case, pairs=12, seed=3)
    ]
    run = write_run(tmp_path / "run", run_samples, header())
    report = command.json("report", run, "-o", tmp_path / "page")
    (row,) = (row for row in report["reports"][0]["runs"][0]["results"] if row["arm"] == "on")
    slowdown = tuple(row[f"slowdown{end}"] for end in ("", "_low", "_high"))
    cost = tuple(100 * (row[f"mean{end}"] - 1) for end in ("", "_low", "_high"))
    assert cost[0] > 100 * (slowdown[0] - 1) + 1

    terminal = " ".join(command("report", run, "-v", "-o", tmp_path / "page").split())
    assert figure(terminal, "stream ") == pytest.approx(slowdown, abs=0.0051)
    assert figure(terminal, "extra node-hours per 100, on average: ") == pytest.approx(
        cost, abs=0.051
    )

    page = (tmp_path / "page" / "report.html").read_text()
    page = " ".join(
        html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\N{EN DASH}", "-").split()
    )
    shown = figure(page.replace(" more (", " ("), "100 node-hours takes on average ", " in stream")
    assert shown == pytest.approx(cost, abs=0.051)
    (typical,) = re.findall(
        r"typical run took ([\d.]+) % more .*?interval: ([\d.]+) % more to", page
    )
    expected = tuple(100 * (ratio - 1) for ratio in slowdown[:2])
    assert tuple(map(float, typical)) == pytest.approx(expected, abs=0.051)

    advised = command.json("advise", run)["advice"][0]["sentences"][0]
    assert figure(advised, "costs stream on average ", " more node-hours per 100") == pytest.approx(
        cost, abs=0.051
    )
    assert advised in " ".join(command("advise", run).split())


@pytest.mark.slow
def test_a_figure_of_runs_is_their_median_and_their_spread_everywhere(tmp_path, command):
    """The median is not computed from baseline and slowdown.

    Median and spread include all accepted runs, also those without a complete pair.
    """
    case = replace(STREAM, noise=0.05, pair_noise=0.2)
    drawn = samples(case, pairs=11, seed=3)
    run_samples = [reject(s, "no_fom", "x") if (s.arm, s.pair) == ("on", 3) else s for s in drawn]
    run = write_run(tmp_path / "results" / "run", run_samples, header())
    foms = {
        arm: [
            s.fom / 1e9
            for s in run_samples
            if s.arm == arm and s.outcome == "accepted" and not s.warmup
        ]
        for arm in ("off", "on")
    }
    assert [len(arm_foms) for arm_foms in foms.values()] == [11, 10]
    off, on = map(median, foms.values())
    spreads = [100 * stdev(arm_foms) / mean(arm_foms) for arm_foms in foms.values()]

    report = command.json("report", run)["reports"][0]["runs"][0]
    (row,) = (row for row in report["results"] if row["arm"] == "on")
    assert abs(off / on / row["slowdown"] - 1) > 0.01
    keys = ("off_median", "on_median", "off_spread", "on_spread")
    assert [row[key] for key in keys] == pytest.approx(
        [1e9 * off, 1e9 * on, *(spread / 100 for spread in spreads)]
    )
    terminal = " ".join(command("report", run, "-v").split())
    printed = re.findall(r"([\d.]+) -> ([\d.]+) GB/s.*?runs: ([\d.]+) % -> ([\d.]+) %", terminal)[0]
    figures = list(map(float, printed))
    assert figures[:2] == pytest.approx([off, on], abs=0.051)
    assert figures[2:] == pytest.approx(spreads, abs=0.051)

    page = (run / "report" / "report.html").read_text()
    cells = re.findall(r'data-label="(?:off|on)"><span>([\d.]+).*?± ([\d.]+) %', page)[:2]
    assert [float(value) for value, _ in cells] == pytest.approx([off, on], abs=0.0051)
    assert [float(spread) for _, spread in cells] == pytest.approx(spreads, abs=0.051)
    drawn_at = re.findall(r"Medians: off ([\d.]+); on ([\d.]+);", page)[0]
    assert list(map(float, drawn_at)) == pytest.approx([off, on], abs=0.0051)

    table = pl.read_parquet(run / "report" / "results.parquet").filter(arm="on").row(0, named=True)
    assert [table[key] for key in ("off_median", "on_median", "fom")] == pytest.approx(
        [1e9 * off, 1e9 * on, 1e9 * on]
    )
    nights = nights_of(read_results([run.parent])[0]).filter(quantity="fom")
    arm_values = dict(nights.select("arm", "value").iter_rows())
    assert [arm_values["off"], arm_values["on"]] == pytest.approx([1e9 * off, 1e9 * on])
    (result,) = (row for row in load_run(run).results if row.arm == "on")
    metrics = reported_figures(result)
    assert [metrics[f"typical_{arm}"][0] for arm in foms] == pytest.approx([1e9 * off, 1e9 * on])
