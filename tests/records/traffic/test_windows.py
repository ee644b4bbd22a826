"""Windows lie where all nodes are known, and have the trace's rates at the wanted scale."""

from pathlib import Path

import pytest

from records.errors import InputError
from records.traffic import formats
from records.traffic.trace import Trace, draw_windows
from records.treatment import Replay

BEGIN_S = 1000


def trace(folder: Path, **nodes: list[int | None]) -> Trace:
    """Bytes of each node second by second; None where nothing is known."""
    rows = [
        f"{BEGIN_S + second},{node},{count}"
        for node, counts in nodes.items()
        for second, count in enumerate(counts)
        if count is not None
    ]
    (folder / "t.csv").write_text("\n".join(["time_s,node,bytes", *rows]))
    return formats.trace([formats.read(folder / "t.csv")])


def test_rates_are_means_of_as_many_seconds_as_pass_in_one(tmp_path: Path) -> None:
    made = trace(tmp_path, few=[0] * 60, many=list(range(60)))
    (window,) = draw_windows(made, Replay("", 4, 0.5), 1, ["a"])
    # 60 s of the trace are 15 s of a run; means of 0..3, 4..7, ...: 1.5, 5.5, ..., and a half.
    assert window.start_s == BEGIN_S
    assert window.nodes == ["many"]
    assert window.rates_b_s == [[0.5 * (1.5 + 4 * second) for second in range(15)]]


def test_the_busiest_nodes_come_first_at_the_same_time(tmp_path: Path) -> None:
    made = trace(tmp_path, b=list(range(400)), c=list(range(1, 401)), a=[0] * 400)
    for window in draw_windows(made, Replay("", 1, 1.0), 2, ["a", "b", "c"]):
        first = window.start_s - BEGIN_S
        assert window.nodes == ["c", "b"]
        assert window.rates_b_s[1] == list(range(first, first + 120))
        assert window.rates_b_s[0] == list(range(first + 1, first + 121))
    # Of nodes with as many bytes, the first by name.
    (window,) = draw_windows(
        trace(tmp_path, b=[1] * 120, a=[1] * 120), Replay("", 1, 1.0), 1, ["x"]
    )
    assert window.nodes == ["a"]


def test_nodes_by_name_go_to_the_targets_in_their_order(tmp_path: Path) -> None:
    made = trace(tmp_path, a=[1] * 120, b=[2] * 120, c=[3] * 120)
    (window,) = draw_windows(made, Replay("", 1, 1.0, ("a", "c")), 2, ["x"])
    assert (window.nodes, [rates[0] for rates in window.rates_b_s]) == (["a", "c"], [1, 3])
    with pytest.raises(InputError, match="n9 found; allowed: c, b, a"):
        draw_windows(made, Replay("", 1, 1.0, ("a", "n9")), 2, ["x"])
    with pytest.raises(InputError, match=r"^traffic\.nodes: 1 nodes named; allowed: 2"):
        draw_windows(made, Replay("", 1, 1.0, ("a",)), 2, ["x"])


def test_a_window_depends_on_its_name_only_and_any_begin_is_drawn(tmp_path: Path) -> None:
    made = trace(tmp_path, a=[1] * 19)
    names = [f"1/stream/0/{pair}" for pair in range(100)]
    windows = draw_windows(made, Replay("", 1, 1.0), 1, names)
    assert draw_windows(made, Replay("", 1, 1.0), 1, names[50:60]) == windows[50:60]
    assert {each.start_s for each in windows} == set(range(BEGIN_S, BEGIN_S + 5))  # 15 s fit
    # 60 s begin at one of 61 s of 120, so that two need not overlap, but at one of 60 s of 119.
    for seconds, length_s in ((120, 60), (119, 30)):
        (window,) = draw_windows(trace(tmp_path, a=[1] * seconds), Replay("", 1, 1.0), 1, ["a"])
        assert len(window.rates_b_s[0]) == length_s


def test_no_window_has_a_gap(tmp_path: Path) -> None:
    made = trace(tmp_path, a=[1] * 50 + [None] + [2] * 31, b=[0] * 82)
    starts = {
        each.start_s for each in draw_windows(made, Replay("", 1, 1.0), 2, [*map(str, range(600))])
    }
    # Of 30 s, 23 are known of both, too few to be apart. 15 s: from 0 to 35, and from 51 to 67.
    assert starts == {BEGIN_S + each for each in [*range(36), *range(51, 68)]}


@pytest.mark.parametrize(
    ("targets", "speed", "said"),
    [(2, 1, "traffic: 1 nodes in the trace"), (1, 10, "no 150 s without a gap")],
)
def test_what_the_trace_cannot_give(tmp_path: Path, targets: int, speed: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        draw_windows(trace(tmp_path, a=[1] * 99), Replay("", speed, 1.0), targets, ["a"])
