"""A run under traffic counts only if its writers wrote what the trace has, when it has it."""

from types import SimpleNamespace
from typing import Any

import pytest

from conductor.messages import FollowRates
from conductor.replay.conductor_side import Follows, compare
from conductor.replay.pacing import due_b
from conductor.series import RateRow
from records import clock
from records.plan import Window
from records.treatment import Replay

#: Ten seconds of 100 and ten of nothing; alone the writer reaches 200.
RATES = [100.0] * 10 + [0.0] * 10


@pytest.mark.parametrize(
    ("after_s", "bytes_b"),
    [(-1, 0), (0, 0), (0.5, 50), (10, 1000), (15, 1000), (20, 1000), (21.5, 1150), (45, 2500)],
)
def test_what_is_due_after_a_while(after_s: float, bytes_b: float) -> None:
    assert due_b(RATES, after_s) == pytest.approx(bytes_b)


def rows(*rates_b_s: float, start_s: float = 1000.0) -> list[RateRow]:
    """One a second."""
    return [
        RateRow(start_s + second, start_s + second + 1, rate)
        for second, rate in enumerate(rates_b_s)
    ]


def test_what_was_written_stands_next_to_what_was_wanted() -> None:
    found = [
        RateRow(999.5, 1000.5, 100.0),
        RateRow(1000.5, 1009.5, 100.0),
        RateRow(1009.5, 1019.5, 14.0),
    ]
    bins, agreeing, reason = compare(found, RATES, (1000.0, 1020.0), (1000.2, 1020.0), 200.0)
    # The first begins before the traffic does. Within the others, 9 s of 100, and half a second.
    assert [(each.wanted_b, each.done_b) for each in bins] == [
        (pytest.approx(900), 900),
        (pytest.approx(50), 140),  # a tenth of the rate alone would be 200
    ]
    assert [each.start_s for each in bins] == pytest.approx([0.3, 9.3])
    assert (agreeing, reason) == (1.0, None)


def test_a_little_counts_as_nothing() -> None:
    # 2 of each second are a hundredth of the rate alone.
    _, _, reason = compare(rows(8e6, 0.0), [1e7, 0.0], (0.0, 2e3), (1000.0, 1002.0), 1.0)
    assert str(reason).startswith("wrote 8.0 MB of 10.0 MB ")
    for rate, fine in ((2.0, True), (2.1, False)):
        _, _, reason = compare(rows(*[rate] * 9), [0.0], (0.0, 2e3), (1000.0, 1009.0), 200.0)
        assert (reason is None) == fine


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (rows(*[110.0] * 10, *[0.0] * 10), None),
        (rows(*[100.0] * 10), None),  # half of the run is enough
        # 20 in a pause is a tenth of the rate alone. Four seconds of twenty may be off.
        (rows(*[90.0] * 6, 60.0, 140.0, 60.0, 140.0, *[20.0] * 5, *[0.0] * 5), None),
        (rows(*[88.0] * 10, *[0.0] * 10), "of the traffic; allowed difference: 10%"),
        (rows(*[112.0] * 10, *[0.0] * 10), "of the traffic; allowed difference: 10%"),
        (rows(*[50.0] * 20), "followed the traffic in 0% of the time"),
        (rows(*[100.0] * 5, *[60.0] * 4, 260.0, *[0.0] * 10), "in 75% of the time"),
        (rows(*[100.0] * 9), "its rows cover 9.0 s of the run"),
        (rows(*[95.0] * 10, *[21.0] * 5, *[0.0] * 5), "in 75% of the time"),
        ([], "its rows cover 0.0 s"),
    ],
)
def test_a_run_counts_within_the_tolerance(found: list[RateRow], said: str | None) -> None:
    _, _, reason = compare(found, RATES, (1000.0, 1020.0), (1000.0, 1020.0), 200.0)
    assert reason is None if said is None else said in str(reason)


def test_writers_of_a_target_share_its_rates_until_the_end(monkeypatch: Any) -> None:
    times_s = iter((1000.0, 1010.0, 1020.0))
    monkeypatch.setattr(clock, "now_s", lambda: next(times_s))
    told: list[tuple[str, FollowRates]] = []
    hub: Any = SimpleNamespace(send=lambda node, order: told.append((node, order)))
    states: list[Any] = [
        SimpleNamespace(writer=SimpleNamespace(index=index, origin=f"o{index}", target=target))
        for index, target in enumerate(("n1", "n2", "n2"))
    ]
    window = Window(0, ["x1", "x2"], [[8.0, 0.0], [6.0, 4.0]])
    replay = Replay("ab" * 32, 1, 0.5)
    follows = Follows(replay, window, ["n1", "n2"], hub, states, [10.0, 10.0, 20.0])
    alone_b_s = [10.0, 10.0, 20.0]
    for rates_b_s in ([[8.0, 0.0], [3.0, 2.0], [3.0, 2.0]], [[], [], []]):
        assert told == [(f"o{i}", FollowRates(i, rates_b_s[i], alone_b_s[i])) for i in range(3)]
        told.clear()
        follows.end()
    # From 1000 to 1020 s the second writer was to write 3, 2, 3, 2, ..., 50 in all.
    states[1].rows = rows(*[2.5] * 20, 9.0)
    record, fault = follows.of(states[1], 10.0, (1000.0, 1020.0))
    assert (record.node, record.wanted_b, record.done_b) == ("x2", 50, 50)
    assert (record.agreeing_share, fault) == (1.0, None)
    states[1].rows = rows(*[9.0] * 20)
    for alone, exceeds in ((3.0, False), (2.9, True)):
        _, fault = follows.of(states[1], alone, (1000.0, 1020.0))
        assert str(fault).endswith("lower traffic.rate") == exceeds
