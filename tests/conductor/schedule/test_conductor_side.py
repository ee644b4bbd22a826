"""The conductor's side of a timetable, with origins of this process whose clocks are not ours."""

import asyncio
import json
from dataclasses import replace

import pytest

from conductor.allocation import Allocation
from conductor.messages import Perform, Written
from conductor.short_writes.conductor_side import ScheduleControl
from conductor.short_writes.records import Done
from records.clock import Offset
from records.plan import ShortWrites
from records.treatment import Writes
from tests.conductor.test_timetable import PLAN

RATE_B_S = 1e6
AHEAD_S = {"o1": 50.0, "o2": -20.0}


class Hub:
    """Origins that write at a rate when their own clocks say so, and targets that listen."""

    def __init__(self, writes=True):
        self.addresses = dict.fromkeys(("n1", "n2", "n3"), "10.0.0.1")
        self.writes, self.parts, self.listening, self.ended = writes, {}, [], 0
        self.lasts_s = []

    async def clocks(self, nodes, timeout_s):
        return {node: Offset(AHEAD_S[node], 0.0, 0.0) for node in nodes}

    async def stand_by(self, injector, passive, logs, timeout_s):
        self.listening = [(each.target, each.port) for each in passive]

    def send(self, node, order):
        assert isinstance(order, Perform)
        self.parts[node] = order.part
        self.lasts_s += [due.start_s for due in order.part.due[-1:]]

    async def finish(self, nodes, timeout_s):
        return {node: self.written(self.parts[node]) for node in nodes}

    def written(self, part):
        if not self.writes:
            return Written([], {"nobody there": len(part.due)})
        bytes_b = part.writer.messages * part.writer.message_b
        starts = [(due.number, part.zero_s + due.start_s) for due in part.due]
        return Written(
            [Done(n, at_s, at_s + bytes_b / RATE_B_S, bytes_b, 0.01) for n, at_s in starts], {}
        )

    async def end_schedule(self):
        self.ended += 1


def control(hub):
    """Two writers at a time, of 0.1 s and messages of 1 kB."""
    plan = replace(PLAN, n_origins=2, short=ShortWrites(0.1, tolerance_s=0.01, allowed_share=0.02))
    nodes = Allocation(["n1", "n2", "n3"], ["o1", "o2"])
    return ScheduleControl(plan, Writes("ucx", 1000, scheduled=2), nodes, hub)


def test_writes_are_found_sized_handed_out_and_judged_by_the_clocks_of_their_origins(tmp_path):
    hub = Hub()

    async def one():
        schedule = control(hub)
        assert await schedule.rehearse(1, tmp_path) is None
        begun = await schedule.begin(0.5, "0/on", 2, tmp_path)
        window_s = (begun.steady_s, begun.steady_s + 0.5)
        return schedule, begun, await schedule.end(begun, window_s, tmp_path / "writes.json")

    schedule, begun, (record, writers, reason) = asyncio.run(one())
    assert max(hub.lasts_s) < 1  # three rounds of 0.1 s, and the run of 0.5 s
    # By hand: 0.1 s at 1 MB/s are 100 messages of 1 kB.
    assert (begun.write.messages, begun.write.lead_s) == (100, 0.01)
    assert schedule.alone_b_s == pytest.approx(2 * RATE_B_S)
    assert schedule.start_up_s > 0.1  # the lead of the first rehearsal
    for origin, part in hub.parts.items():
        assert part.zero_s - begun.zero_s == pytest.approx(AHEAD_S[origin])
    assert len(set(hub.listening)) == len(hub.listening) >= 2 * 3  # two sides of each target
    assert (reason, record.done, record.slow, record.messages) == (None, record.planned, 0, 100)
    assert (record.missing_share, record.excess_share) == pytest.approx((0, 0), abs=1e-6)
    assert [each.bytes_b for each in writers] == pytest.approx([0.5e6] * 2)
    assert [each.rate_b_s for each in writers] == pytest.approx([RATE_B_S] * 2)
    stored = json.loads((tmp_path / "writes.json").read_text())
    assert sum(len(each["done"]) for each in stored["written"].values()) >= record.done
    assert stored["clocks"]["o1"]["offset_s"] == 50.0


def test_writes_that_cannot_be_made_end_the_rehearsal(tmp_path):
    hub = Hub(writes=False)
    found = asyncio.run(control(hub).rehearse(1, tmp_path))
    assert found.startswith("no write was done: ")
    assert found.endswith(" times: nobody there")
    assert hub.ended == 1
