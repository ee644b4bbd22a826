"""Duty, bursts, pauses and nodes at once of traces that are counted by hand."""

from pathlib import Path

import pytest

from analysis.subjects.traffic import Traffic, traffic
from analysis.subjects.writers import optimum_interval_s
from records.traffic import formats
from records.traffic.trace import Trace
from records.units import SECONDS
from tests.records.traffic.made import PLAIN

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
