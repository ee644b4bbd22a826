"""The conductor's side of timetables of short writes.

The origins are stand-ins whose clocks differ from the conductor's. A passive side is a program at a
target that listens for one write.
"""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from conductor.block.allocation import Allocation
from conductor.block.assignment import Assignment
from conductor.block.schedule import (
    NotReadyError,
    ShortWriteSchedule,
    messages_per_write,
    passive_sides_needed,
)
from conductor.messages import FinishWrites, MakeWrites, WritesMade
from conductor.readings import FinishedWrite
from records.block_plan import ShortWrites
from records.clock import Offset
from records.timetable import longest_rest_s, staggered_writes
from records.treatment import Writes
from tests.conductor.block_plans import PLAN

RATE_B_S = 1e6
#: Origin -> how far its clock is ahead of the conductor's, seconds.
AHEAD_S = {"o1": 50.0, "o2": -20.0}
OPTIONS = ("--tclass=106",)


class Hub:
    """A stand-in for origins, which write at times of their own clocks, and targets that listen."""

    def __init__(self, writes=True, fault=None, late=0):
        """`late`: how often no write has begun when the origins must report their writes."""
        self.addresses = dict.fromkeys(("n1", "n2", "n3"), "10.0.0.1")
        self.fault, self.late = fault, late
        self.writes, self.orders, self.listening, self.stops = writes, {}, [], 0
        #: Start of the last write of each order.
        self.last_starts_s = []

    async def measure_clocks(self, nodes):
        return {node: Offset(AHEAD_S[node], 0.0, 0.0) for node in nodes}

    async def start_passive_sides(self, injector, passive, timeout_s):
        self.listening = [(side.target, side.port) for side in passive]
        assert {side.options for side in passive} == {OPTIONS}
        return [SimpleNamespace(writer=side, end_reason=self.fault) for side in passive]

    def send(self, node, order):
        assert isinstance(order, MakeWrites)
        self.orders[node] = order
        self.last_starts_s += [write.start_s for write in order.writes[-1:]]

    async def ask(self, orders, kind, action, timeout_s):
        assert (kind, {type(order) for order in orders.values()}) == (WritesMade, {FinishWrites})
        if self.late:
            self.late -= 1
            return dict.fromkeys(orders, WritesMade([], {}))
        return {node: self.report(self.orders[node]) for node in orders}

    def report(self, order):
        if not self.writes:
            return WritesMade([], {"nobody there": len(order.writes)})
        bytes_b = order.writer.messages * order.writer.message_b
        starts = [(write.number, order.zero_s + write.start_s) for write in order.writes]
        return WritesMade(
            [
                FinishedWrite(n, at_s, at_s + bytes_b / RATE_B_S, bytes_b, 0.01)
                for n, at_s in starts
            ],
            {},
        )

    async def stop(self, sides):
        self.stops += 1
        assert len(sides) == len(self.listening)


def made_schedule(hub, **short):
    """Return a schedule with two writers at a time, writes of 0.1 s and messages of 1 kB."""
    short = {"length_s": 0.1, "tolerance_s": 0.01, "allowed_share": 0.02, **short}
    plan = replace(PLAN, n_origins=2, short=ShortWrites(**short))
    nodes = Allocation(["n1", "n2", "n3"], ["o1", "o2"])
    writes = Writes(injector="ucx", message_b=1000, scheduled=2, options=OPTIONS)
    return ShortWriteSchedule(plan, writes, Assignment(plan, nodes), hub)


def test_writes_are_rehearsed_sized_handed_out_and_judged_by_the_clocks_of_their_origins(tmp_path):
    hub = Hub()

    async def one_run():
        schedule = made_schedule(hub)
        await schedule.rehearse()
        begun = await schedule.begin(0.5, "0/on")
        steady_s = begun.zero_s + begun.timetable.steady_from_s
        window_s = (steady_s, steady_s + 0.5)
        return schedule, begun, await schedule.end(begun, window_s, tmp_path / "writes.json")

    schedule, begun, (record, writers, reason) = asyncio.run(one_run())
    assert max(hub.last_starts_s) < 1  # a rehearsal has three rounds of 0.1 s, the run has 0.5 s
    # By hand: 0.1 s at 1 MB/s are 100 messages of 1 kB.
    assert (schedule.messages, schedule.setup_s) == (100, 0.01)
    assert schedule.alone_b_s == pytest.approx(2 * RATE_B_S)
    assert schedule.length_note() is None
    assert schedule.start_up_s > 0.1  # the time before the writes of the first rehearsal
    for origin, order in hub.orders.items():
        assert order.zero_s - begun.zero_s == pytest.approx(AHEAD_S[origin])
        assert (order.writer.origin, order.writer.options) == (origin, OPTIONS)
    # Each of the three targets has at least two passive sides.
    assert len(set(hub.listening)) == len(hub.listening) >= 2 * 3
    assert (reason, record.done, record.slow, record.messages) == (None, record.planned, 0, 100)
    assert (record.missing_share, record.excess_share) == pytest.approx((0, 0), abs=1e-6)
    assert [writer.bytes_b for writer in writers] == pytest.approx([0.5e6] * 2)
    assert [writer.rate_b_s for writer in writers] == pytest.approx([RATE_B_S] * 2)
    stored = json.loads((tmp_path / "writes.json").read_text())
    assert sum(len(report["done"]) for report in stored["written"].values()) >= record.done
    assert stored["clocks"]["o1"]["offset_s"] == 50.0


def test_a_write_of_a_requested_number_of_messages_lasts_as_long_as_they_take(tmp_path):
    """By hand: 150 messages of 1 kB at the measured 1 MB/s take 0.15 s, but 0.1 s was planned."""

    async def one_run():
        schedule = made_schedule(Hub(), messages=150)
        await schedule.rehearse()
        begun = await schedule.begin(0.5, "0/on")
        steady_s = begun.zero_s + begun.timetable.steady_from_s
        window_s = (steady_s, steady_s + 0.5)
        return schedule, await schedule.end(begun, window_s, tmp_path / "writes.json")

    schedule, (record, _, reason) = asyncio.run(one_run())
    assert (schedule.messages, record.messages, reason) == (150, 150, None)
    assert schedule.length_s == pytest.approx(0.15)
    assert record.length_s == pytest.approx(0.15)
    assert schedule.length_note() == (
        "a write of 150 messages takes 0.15 s at the rate measured alone; Daly's interval was"
        " planned for 0.1 s"
    )


def test_writes_that_cannot_be_made_end_the_rehearsal():
    hub = Hub(writes=False)
    with pytest.raises(NotReadyError, match=r"^no write was done: \d+ x nobody there$"):
        asyncio.run(made_schedule(hub).rehearse())
    assert hub.stops == 1
    hub = Hub(fault="target side ended: no port")
    with pytest.raises(NotReadyError, match=r"^n1: target side ended: no port$"):
        asyncio.run(made_schedule(hub).rehearse())
    assert hub.stops == 1


def test_a_rehearsal_in_which_no_write_was_begun_is_repeated():
    """If a host does not run for a tenth of a second, it may miss all writes of a rehearsal."""
    schedule = made_schedule(hub := Hub(late=1))
    asyncio.run(schedule.rehearse())
    assert schedule.alone_b_s == pytest.approx(2 * RATE_B_S)
    assert hub.stops == 3
    with pytest.raises(NotReadyError, match=r"^no write was begun in time in 4 rehearsals$"):
        asyncio.run(made_schedule(Hub(late=4)).rehearse())


def test_a_write_has_as_many_messages_as_its_length_needs():
    # The paper's 46,000 messages of 64 KiB take about 1 s at 3.2 GB/s, the rate of QDR InfiniBand.
    assert messages_per_write(ShortWrites(1.0), 3.2e9, 65536) == 48828
    assert messages_per_write(ShortWrites(0.001), 1e6, 65536) == 1
    assert messages_per_write(ShortWrites(2.0, fill=0.25), 3.2e9, 65536) == 24414
    assert messages_per_write(ShortWrites(1.0, messages=46000), 1.0, 65536) == 46000


@pytest.mark.parametrize(
    ("setup_s", "length_s", "targets", "expected"),
    [
        # A side is in use for 1.2 s. A write comes every 2 s, so one side would be enough.
        (0.1, 1.0, 2, 2),
        (0.1, 1.0, 1, 2),  # a write comes every second
        (5.0, 8.0, 1, 3),  # a side is in use for 18 s, a write comes every 8 s
        (5.0, 8.0, 2, 2),  # a write comes every 9 s, since a target rests for a second at most
        (5.0, 2.0, 2, 4),  # a side is in use for 12 s, a write comes every 3 s
        (60.0, 2.0, 2, 4),  # 41 sides would be needed, but a target has only four ports
    ],
)
def test_a_passive_side_waits_whenever_a_connection_is_set_up(setup_s, length_s, targets, expected):
    rest_s = longest_rest_s(targets, 1, length_s)
    names = [f"t{i}" for i in range(targets)]
    table = staggered_writes(names, ["o"], 1, length_s, 60.0, 1, rest_s=rest_s)
    assert passive_sides_needed(setup_s, table) == expected
