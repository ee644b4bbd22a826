"""How far the clock of a node is ahead, estimated from messages that go there and back."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records import clock
from records.clock import Exchange, Offset, interpolated_offset, offset_from
from records.errors import MachineError


def exchanges(offset_s: float, rng: random.Random, number: int, there_s: float) -> list[Exchange]:
    """Return messages whose delays are random, with exponential distributions.

    The mean delay is `there_s` on the way there, and 0.1 ms on the way back.
    """
    trips, now_s = [], 1e9
    for _ in range(number):
        answered_s = now_s + rng.expovariate(1 / there_s)
        back_s = answered_s + rng.expovariate(1 / 1e-4)
        trips.append(Exchange(now_s, answered_s + offset_s, back_s))
        now_s = back_s + 1e-3
    return trips


@given(
    st.floats(-1e4, 1e4), st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([1e-4, 1e-2])
)
@settings(max_examples=100, deadline=None)
def test_the_offset_differs_from_the_true_one_by_at_most_its_error(
    offset_s: float, seed: int, number: int, there_s: float
) -> None:
    offset = offset_from(exchanges(offset_s, random.Random(seed), number, there_s), "n1")
    # A float holds Unix times to a quarter of a microsecond.
    assert abs(offset.offset_s - offset_s) <= offset.error_s + 1e-6


def test_an_offset_worked_out_by_hand() -> None:
    with pytest.raises(MachineError, match="n1: no message came back"):
        offset_from([], "n1")
    # The clock is ahead by 10 s. The first message takes 2 s there and 1 s back, the second 1 s
    # there and 5 s back. So the shortest delays are 1 s there and 1 s back.
    slow_there = Exchange(0.0, 12.0, 3.0)
    slow_back = Exchange(5.0, 16.0, 11.0)
    assert offset_from([slow_there, slow_back], "n1") == Offset(10.0, 1.0, 5.5)


def test_a_clock_that_was_set_meanwhile_is_reported() -> None:
    before, after = Exchange(0.0, 1.0, 2.0), Exchange(10.0, 111.0, 12.0)
    with pytest.raises(MachineError, match="n1: its clock moved by 98 s"):
        offset_from([before, after], "n1")


def test_the_offset_between_two_measurements_is_interpolated() -> None:
    first, last = Offset(1.0, 0.1, 100.0), Offset(3.0, 0.3, 200.0)
    middle = interpolated_offset(first, last, 150.0)
    assert (middle.offset_s, middle.error_s) == pytest.approx((2.0, 0.2))
    assert interpolated_offset(first, last, 50.0).offset_s == 1.0
    assert interpolated_offset(first, last, 900.0).offset_s == 3.0
    assert interpolated_offset(first, first, 900.0) == first


def test_a_step_of_the_wall_clock_does_not_change_our_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before_s = clock.now_s()
    assert before_s == pytest.approx(time.time(), abs=5.0)  # Unix time
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before_s <= clock.now_s() < before_s + 60.0


def test_clocks_that_are_far_apart_are_named() -> None:
    clock.require_close_clocks("n7", {"n7": 0.0, "n8": -60.0, "n9": 60.0})
    with pytest.raises(MachineError, match="n8: its clock is 61 s behind that of n7"):
        clock.require_close_clocks("n7", {"n7": 0.0, "n8": -61.0})
    with pytest.raises(MachineError, match="n9: its clock is 600 s ahead of that of n7"):
        clock.require_close_clocks("n7", {"n9": 600.0})
