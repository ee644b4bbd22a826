"""Sizes, rooms and sides of short writes, against figures worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from conductor.short_writes import records
from conductor.short_writes.records import Done
from records.errors import InputError
from records.plan import ShortWrites
from records.timetable import plan

WRITER = Writer(0, "o0", "t0", "", 20000, 65536)


def test_messages_that_last_as_long_as_asked():
    # The paper's 46,000 messages of 64 KiB are about 1 s at the 3.2 GB/s that QDR carries.
    assert records.messages_of(ShortWrites(1.0), 3.2e9, 65536) == 48828
    assert records.messages_of(ShortWrites(0.001), 1e6, 65536) == 1
    assert records.messages_of(ShortWrites(2.0, fill=0.25), 3.2e9, 65536) == 24414
    assert records.messages_of(ShortWrites(1.0, messages=46000), 1.0, 65536) == 46000


@pytest.mark.parametrize(
    ("writers", "rate_b_s", "share", "origins"),
    [
        (42, None, 1.0, 42),  # full rate: an origin each
        (42, None, 0.5, 42),
        (42, 1e9, 1.0, 11),  # four of 1 GB/s fit into 4 GB/s
        (42, 1e9, 0.5, 21),
        (0, None, 1.0, 1),
    ],
)
def test_origins_that_the_link_share_asks_for(writers, rate_b_s, share, origins):
    assert records.origins_needed(writers, 4e9, share, rate_b_s) == origins
    with pytest.raises(InputError, match=f"{share:.0%}"):  # one writer is beyond the share
        records.origins_needed(1, 4e9, share, 4.1e9 * share)


@pytest.mark.parametrize(
    ("targets", "writers", "rest_s"),
    [(1, 1, 0.0), (2, 2, 0.0), (3, 2, 0.2), (2, 1, 0.4), (100, 1, 1.0)],
)
def test_targets_rest_as_long_as_there_are_others(targets, writers, rest_s):
    """With writes of 0.4 s: each of 3 targets is written to for 0.4 s of every 0.6 s."""
    assert records.rest_s(targets, writers, 0.4) == pytest.approx(rest_s)


@given(
    targets=st.integers(1, 9),
    writers=st.integers(1, 9),
    origins=st.integers(1, 4),
    sides=st.integers(2, 4),
    seed=st.integers(0, 99),
)
def test_every_write_is_handed_out_once_and_sides_take_turns(
    targets, writers, origins, sides, seed
):
    writers = min(writers, targets)
    rest_s = records.rest_s(targets, writers, 1.0)
    names = [f"t{i}" for i in range(targets)]
    table = plan(names, [f"o{i}" for i in range(origins)], writers, 1.0, 20.0, seed, setup_s=rest_s)
    handed = sorted(each for part in records.due(table, sides).values() for each in part)
    assert [due.number for due in handed] == list(range(len(table)))
    for due in handed:
        write = table.write(due.number)
        assert names[due.target] == write.target
        assert due.start_s == pytest.approx(write.start_s, abs=1e-6)
    for target in range(targets):
        turns = [due.side for due in handed if due.target == target]
        assert turns == [i % sides for i in range(len(turns))]


@pytest.mark.parametrize(
    ("lead_s", "length_s", "targets", "sides"),
    [
        (0.1, 1.0, 2, 2),  # taken for 1.2 s, and hit every 2 s: one could do
        (0.1, 1.0, 1, 2),  # hit every second
        (5.0, 8.0, 1, 3),  # taken for 18 s, hit every 8 s
        (5.0, 8.0, 2, 2),  # hit every 9 s, since a target rests for a second at most
        (5.0, 2.0, 2, 4),  # taken for 12 s, hit every 3 s
        (60.0, 2.0, 2, 4),  # would need 41: more ports than there are
    ],
)
def test_a_passive_side_waits_whenever_a_connection_is_set_up(lead_s, length_s, targets, sides):
    rest_s = records.rest_s(targets, 1, length_s)
    names = [f"t{i}" for i in range(targets)]
    table = plan(names, ["o"], 1, length_s, 60.0, 1, setup_s=rest_s)
    assert records.sides(lead_s, table) == sides


def test_what_each_writer_did_within_the_window():
    table = plan(["t0", "t1", "t2"], ["o0", "o1"], 2, 1.0, 4.0, 1)
    done = [
        Done(0, 10.0, 11.0, 100.0),  # slot 0, half of it before the window
        Done(2, 11.0, 12.0, 50.0),  # slot 0
        Done(1, 10.5, 11.5, 80.0),  # slot 1
        Done(3, 13.0, 14.0, 40.0),  # slot 1, after the window
    ]
    first, second = records.slot_records(table, done, (10.5, 13.0), 100.0, WRITER, INJECTORS["ucx"])
    assert (first.origin, first.target, first.transport) == ("o0", "*", "tcp")
    assert first.bytes_b == pytest.approx(100.0)  # 0.5 s at 100 and 1 s at 50
    assert first.rate_b_s == pytest.approx(100 / 1.5)
    assert first.rate_min_b_s == 50.0
    assert (second.origin, second.bytes_b, second.rate_alone_b_s) == ("o1", 80.0, 100.0)
    assert second.rate_min_b_s == 80.0
