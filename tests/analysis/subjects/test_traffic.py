"""Traffic of traces that are counted by hand, and what a report says of traffic replayed."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.effects.verdict import Verdict
from analysis.report import page
from analysis.report.data import load_run
from analysis.subjects.traffic import (
    ReplayedTraffic,
    Traffic,
    render,
    replayed,
    sentence,
    traffic,
)
from analysis.subjects.writers import optimum_interval_s
from nimc.base.units import SECONDS
from nimc.records.sample import ReplayBin, ReplayRecord, Sample
from nimc.traffic import formats
from nimc.traffic.trace import Trace
from tests.analysis.synthetic import LAMMPS, samples, write_run
from tests.nimc.traffic.made import PLAIN

YEAR_S = SECONDS["y"]


def made(folder: Path, text: str) -> Trace:
    (folder / "t.csv").write_text(text)
    return formats.trace([formats.read(folder / "t.csv")])


@pytest.fixture
def found(tmp_path: Path) -> Traffic:
    return traffic(made(tmp_path, PLAIN), None, 5 * YEAR_S)


def test_nodes(found: Traffic) -> None:
    assert found.above_b_s == 100  # a tenth of 1000
    assert (found.start_s, found.end_s) == (100, 110)
    n1, n2 = found.nodes
    assert [each.node for each in found.nodes] == ["n1", "n2"]  # 2500 and 800 bytes
    assert (n1.known_s, n1.duty, n1.mean_b_s, n1.peak_b_s) == (8, 3 / 8, 2500 / 8, 1000)
    # From 101 for 2 s and from 105 for 1 s.
    assert (n1.bursts, n1.burst_median_s, n1.burst_most_s) == (2, 1.5, 2)
    assert n1.burst_mean_b_s == 2500 / 3
    # From 103 for 2 s. The others begin or end where nothing is known: at 100, 106 and 109.
    assert (n1.pause_median_s, n1.pause_95_s) == (2, 2)
    assert (n2.duty, n2.bursts, n2.pause_median_s) == (1 / 7, 1, None)


def test_the_machine_and_daly_s_expectation(found: Traffic) -> None:
    assert found.machine.known_s == 15
    assert found.machine.duty == 4 / 15
    assert found.machine.bursts == 3
    assert found.machine.burst_median_s == 1
    # In the seven seconds from 100 that both are known: 0, 1, 2, 0, 0, 1, 0.
    once = found.at_once
    assert (once.known_s, once.median, once.most) == (7, 0, 2)
    assert once.mean == pytest.approx(4 / 7)
    assert once.quantile_95 == pytest.approx(1.7)  # between the sixth and the seventh
    assert found.daly
    interval_s = optimum_interval_s(1.0, 5 * YEAR_S / 2)
    assert found.daly.concurrent_writers_exact == pytest.approx(2 / (interval_s + 1))


@pytest.mark.parametrize(
    ("above_b_s", "duty"), [(0, 4 / 15), (500, 3 / 15), (999, 2 / 15), (1000, 0)]
)
def test_seconds_above_the_threshold_count(tmp_path: Path, above_b_s: float, duty: float) -> None:
    found = traffic(made(tmp_path, PLAIN), above_b_s, YEAR_S)
    assert found.machine.duty == duty
    assert (found.daly is None) == (not found.machine.bursts)


def test_bursts_of_one_node_do_not_go_on_at_the_next(tmp_path: Path) -> None:
    text = "time_s,node,bytes\n" + "".join(
        f"{t},{'a' if t < 200 else 'b'},{9 * (t % 10 < 3)}\n" for t in range(100, 300)
    )
    found = traffic(made(tmp_path, text), 1, YEAR_S).machine
    # The first burst of each begins with the trace, and its last pause ends with it.
    assert (found.duty, found.bursts, found.burst_most_s) == (0.3, 18, 3)
    assert (found.pause_median_s, found.pause_95_s) == (7, 7)
    # Of bursts before and after a second that is not known, no length is.
    gap = made(tmp_path, "time_s,node,bytes\n1,a,0\n2,a,9\n4,a,9\n5,a,0\n")
    assert traffic(gap, 1, YEAR_S).machine.bursts == 0


def test_page(tmp_path: Path, found: Traffic) -> None:
    text = render(made(tmp_path, PLAIN), found, "<t>")
    assert text.count("<svg") == 2
    assert "Traffic of &lt;t&gt;" in text
    assert not re.search(r'(src|href)="(?!#|data:)', text)
    cells = re.findall(r'<th scope="row"[^>]*>(\w+)</th>|data-label="duty">([^<]*)<', text)
    assert [a or b for a, b in cells] == ["all", "26.7 %", "n1", "37.5 %", "n2", "14.3 %"]
    silent = made(tmp_path, "time_s,node,bytes\n1,n1,0\n3,n2,0\n")
    assert "No second is known of all nodes" in render(silent, traffic(silent, None, YEAR_S), "t")


# Replayed traffic.

#: 2026-03-01 00:00 UTC.
MARCH_S = 1772323200
LONGER = 1.04


def under_traffic(run: Sample, speed: int, share: float) -> Sample:
    """Its writer was to write 300 and 100 bytes in the second and the half second reported."""
    bins = [ReplayBin(0.0, 1.0, 300.0, 290.0), ReplayBin(1.0, 0.5, 100.0, 105.0)]
    record = ReplayRecord(
        trace_sha256="ab" * 32,
        node="n7",
        window_s=MARCH_S + 86400 * max(run.pair, 0),
        speed=speed,
        share=share,
        wanted_b=400.0,
        done_b=395.0,
        agreeing_share=0.9,
        bins=bins,
    )
    return replace(run, writers=[replace(each, replay=record) for each in run.writers])


def rows(folder: Path, speed: int = 1, share: float = 1.0) -> list[ReplayedTraffic]:
    case = replace(LAMMPS, effects={"on": LONGER, "aa": 1.0}, noise=0.0, origin="origin-0")
    case = replace(case, transport="rdma")
    made = [under_traffic(each, speed, share) for each in samples(case, pairs=10)]
    write_run(folder / "run", made)
    return replayed(load_run(folder / "run", force=True))


def test_what_was_wanted_done_and_lost(tmp_path: Path) -> None:
    (row,) = rows(tmp_path)
    assert (row.nodes, row.runs) == (["n7"], 10)
    assert row.wanted_b_s == pytest.approx(400 / 1.5)
    assert row.done_b_s == pytest.approx(395 / 1.5)
    assert row.furthest_share == pytest.approx(5 / 400)
    assert row.agreeing_share == 0.9
    assert row.longer
    assert row.longer.value == pytest.approx(LONGER)
    # Of the 730.5 hours of a mean month, 1 - 1 / 1.04 are lost on one node.
    assert row.node_hours_month
    assert row.node_hours_month.value == pytest.approx(730.5 * 0.04 / 1.04)
    assert "of 2026-03-01 to 2026-03-10 takes 4.0 % longer [" in sentence(row)
    # A loss that is not shown is not stated.
    assert row.verdict is Verdict.CONTENTION
    open_row = replace(row, verdict=Verdict.INCONCLUSIVE)
    assert "takes" not in sentence(open_row)
    assert "inconclusive, 4.0 % longer [" in sentence(open_row)
    assert "node-hours" in sentence(row)
    assert "node-hours" not in sentence(open_row)
    run = load_run(tmp_path / "run", force=True)
    text = html.unescape(re.sub("</?span[^>]*>", "", page.render([run])))
    assert sentence(row) in text[text.index("r0replayed") :]
    files = {path.name: path for path in page.write_data(tmp_path, [run])}
    (stored,) = json.loads(files["traffic.json"].read_text())["traffic"]
    assert stored["done_b_s"] == row.done_b_s
    assert stored["run"] == "synthetic-run"


def test_at_another_scale_no_node_hours_are_stated(tmp_path: Path) -> None:
    for speed, share in ((10, 1.0), (1, 0.5)):
        (row,) = rows(tmp_path / f"{speed}-{share}", speed, share)
        assert row.longer
        assert row.node_hours_month is None
