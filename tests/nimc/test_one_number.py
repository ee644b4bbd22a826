"""A slowdown and its cost: the same numbers in the terminal, on the page, in JSON and advice."""

import html
import re
from dataclasses import replace

import pytest

from tests.analysis.synthetic import STREAM, header, samples, write_run

#: A value and its interval: `1.39 [1.30, 1.50]`, `39.1 (30.2 to 49.6)`.
_FIGURE = r"([\d.]+)\w* [\[(]([\d.]+)(?:,| to) ([\d.]+)[\])]"


def figure(text: str, before: str, after: str = "") -> tuple[float, ...]:
    """The one figure with an interval that stands between these words."""
    (numbers,) = set(re.findall(f"{before}{_FIGURE}{after}", text))
    return tuple(map(float, numbers))


def test_all_say_the_same(tmp_path, command):
    # Every run drifts and some are hit, so that mean, typical run and medians differ.
    case = replace(STREAM, noise=0.02, pair_noise=0.2)
    slow = {("on", 2), ("on", 7)}
    hit = [
        replace(one, fom=one.fom / 1.5) if (one.arm, one.pair) in slow else one
        for one in samples(case, pairs=12, seed=3)
    ]
    run = write_run(tmp_path / "run", hit, header())
    report = command.json("report", run, "-o", tmp_path / "page")
    (row,) = (row for row in report["reports"][0]["runs"][0]["results"] if row["arm"] == "on")
    slowdown = tuple(row[f"slowdown{end}"] for end in ("", "_low", "_high"))
    cost = tuple(100 * (row[f"mean{end}"] - 1) for end in ("", "_low", "_high"))
    assert cost[0] > 100 * (slowdown[0] - 1) + 1

    terminal = " ".join(command("report", run, "-v", "-o", tmp_path / "page").split())
    assert figure(terminal, "stream ") == pytest.approx(slowdown, abs=0.0051)
    assert figure(terminal, "extra node-hours per 100: ") == pytest.approx(cost, abs=0.051)
    # The figures beside it say the same: rates, so the one with writes is the lower.
    off, on = map(float, re.findall(r"([\d.]+) -> ([\d.]+) GB/s", terminal)[0])
    assert off / on == pytest.approx(slowdown[0], rel=0.01)

    page = (tmp_path / "page" / "report.html").read_text()
    page = " ".join(
        html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\N{EN DASH}", "-").split()
    )
    shown = figure(page.replace(" more (", " ("), "100 node-hours takes ", " in stream")
    assert shown == pytest.approx(cost, abs=0.051)
    (typical,) = re.findall(
        r"typical run took ([\d.]+) % more .*?interval: ([\d.]+) % more to", page
    )
    expected = tuple(100 * (ratio - 1) for ratio in slowdown[:2])
    assert tuple(map(float, typical)) == pytest.approx(expected, abs=0.051)

    advised = command.json("advise", run)["advice"][0]["sentences"][0]
    assert figure(advised, "costs stream ", " more node-hours per 100") == pytest.approx(
        cost, abs=0.051
    )
    assert advised in " ".join(command("advise", run).split())
