"""How an agent makes the short writes that a timetable gives to its node.

The program that writes is a stand-in.
"""

import asyncio
import os
import signal
import sys
import time
from dataclasses import dataclass

import pytest

from conductor.agent.agent import Agent
from conductor.agent.end_program import start_writer_end
from conductor.agent.short_writer import ShortWriter
from conductor.injectors import INJECTORS
from conductor.injectors.base import Fault, Total
from conductor.messages import MakeWrites, StartWriterEnd
from records import processes
from records.kernel_text import read
from records.timetable import PlannedWrite, staggered_writes
from tests import made_writers
from tests.conductor.conftest import RecordingWire, free_port

LISTENER = (
    "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    "s.accept()[0].recv(1)"
)
#: Connects, and prints a total 0.3 s later: 0.1 s of set-up, and 0.2 s in which it would write.
CLIENT = (
    "import socket, sys, time\n"
    "try:\n"
    "    c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
    "except OSError: sys.exit('fault: nobody there')\n"
    "time.sleep(0.3); print('total', sys.argv[2]); c.close()\n"
)


@dataclass
class Program:
    """A writer whose ends write nothing.

    The printed total stands for 1000 messages at 5000 messages a second.
    """

    passive: str = LISTENER
    writes: bool = True
    is_launched: bool = False

    def target_command(self, writer):
        return [sys.executable, "-S", "-c", self.passive, str(writer.port)]

    def origin_command(self, writer):
        return [sys.executable, "-S", "-c", CLIENT, str(writer.port), str(writer.messages)]

    def environment(self, writer):
        return {}

    def listens_over_tcp(self, writer):
        return True

    def parser(self, writer):
        return self

    def parse(self, line):
        word, _, rest = line.partition(" ")
        if word == "total":
            return Total(int(rest), 5000.0 * 100)
        return Fault(rest.strip()) if word == "fault:" else None


class PrintingProgram(Program):
    """Prints the processors on which it may run, and the value of an environment variable."""

    def target_command(self, writer):
        code = "import os; print(os.sched_getaffinity(0), os.environ['GREETING'])"
        return [sys.executable, "-S", "-c", code]

    origin_command = target_command

    def environment(self, writer):
        return {"GREETING": "a=b,c"}


def test_each_end_runs_on_the_cpus_of_its_writer_with_the_variables_of_its_injector():
    last = max(os.sched_getaffinity(0))
    writer = made_writers.writer(address="", port=1, message_b=100, cpus=[last])

    async def printed(role):
        process = await start_writer_end(PrintingProgram(), writer, role, asyncio.subprocess.PIPE)
        return (await process.communicate())[0].decode()

    for role in ("origin", "target"):
        assert asyncio.run(printed(role)) == f"{{{last}}} a=b,c\n"


def made_order(port, starts, **changes):
    """Return an order for writes of 0.2 s that are due at `starts`, in seconds."""
    fields = {
        "injector": "stand-in",
        "writer": made_writers.writer(address="", port=port, message_b=100, messages=1000),
        "targets": [("t", "127.0.0.1")],
        "passive_sides": 1,
        "zero_s": time.time() + 1.0,
        "setup_s": 0.15,
        "max_delay_s": 60.0,
        "writes": [
            PlannedWrite(number, 0, start_s, start_s + 0.2) for number, start_s in enumerate(starts)
        ],
    }
    return MakeWrites(**{**fields, **changes})


def test_passive_sides_of_a_target_take_turns():
    plan = staggered_writes(["a", "b", "c"], ["o"], 1, 1.0, 12.0, 3)
    writer = made_writers.writer(target="", address="", message_b=100)
    targets = [(n, f"at {n}") for n in "abc"]
    order = MakeWrites(
        injector="ucx",
        writer=writer,
        targets=targets,
        passive_sides=2,
        zero_s=0.0,
        setup_s=0.1,
        max_delay_s=0.3,
        writes=plan.writes_of("o"),
    )
    for index, name in enumerate("abc"):
        to_one = [order.writer_of(write) for write in order.writes if write.target == index]
        assert {(passive.target, passive.address) for passive in to_one} == {(name, f"at {name}")}
        assert [passive.port for passive in to_one] == [20000, 20001, 20000, 20001]


async def passive_side(writer, logs):
    """Return an agent that has started the passive side of a short write: its target's end."""
    agent = Agent(RecordingWire(), logs)
    await agent.execute(StartWriterEnd("target", "stand-in", writer))
    return agent


def carried_out(monkeypatch, order, is_enough, tmp_path, program=None):
    """Carry out an order until `is_enough(writer)`; return the origin's `ShortWriter`.

    One target listens.
    """
    program = program or Program()
    monkeypatch.setitem(INJECTORS, "stand-in", program)

    async def perform():
        agent = await passive_side(order.writer, tmp_path)
        performer = ShortWriter(order, tmp_path / "writes.log")
        while not is_enough(performer):
            await asyncio.sleep(0.01)
        await performer.finish(60.0)
        await agent.stop()
        assert processes.listener(order.writer.port, 0) is None
        return performer

    return asyncio.run(asyncio.wait_for(perform(), 120))


def test_writes_are_made_when_they_are_due_to_passive_sides_that_are_replaced(
    monkeypatch, tmp_path
):
    order = made_order(free_port(), [0.0, 1.0, 600.0])
    performer = carried_out(monkeypatch, order, lambda writer: len(writer.finished) == 2, tmp_path)
    assert [write.number for write in performer.finished] == [0, 1]
    for write in performer.finished:
        assert write.bytes_b == 1000 * 100
        # 1000 messages at 5000 a second take 0.2 s. The set-up of 0.1 s is not included.
        assert write.end_s - write.start_s == pytest.approx(0.2)
        assert write.setup_s >= 0.1
    # The first write was launched 0.15 s before it was due, or a little later.
    first = performer.finished[0]
    assert first.setup_s <= first.start_s - (order.zero_s - order.setup_s) + 1e-3
    assert performer.faults == {}


def test_a_write_that_finds_nobody_is_given_up_in_time_and_reported(monkeypatch, tmp_path):
    order = made_order(free_port(), [0.0], max_delay_s=0.3)
    program = Program(passive="import time; time.sleep(60)")
    performer = carried_out(monkeypatch, order, lambda writer: writer.faults, tmp_path, program)
    assert performer.finished == []
    assert performer.faults["nobody there"] == 1
    assert "nobody there" in (tmp_path / "writes.log").read_text()


def test_a_write_that_does_not_end_is_stopped_and_reported(monkeypatch, tmp_path):
    class Endless(Program):
        def origin_command(self, writer):
            code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid()))"
            return [sys.executable, "-S", "-c", f"{code}; time.sleep(60)", str(tmp_path / "pid")]

    monkeypatch.setitem(INJECTORS, "stand-in", Endless())

    async def perform():
        order = made_order(free_port(), [0.0, 600.0], zero_s=time.time())
        performer = ShortWriter(order, tmp_path / "writes.log")
        while not (pid := read(tmp_path / "pid")):
            await asyncio.sleep(0.01)
        await performer.finish(0.1)
        return performer, int(pid)

    performer, pid = asyncio.run(asyncio.wait_for(perform(), 60))
    assert performer.finished == []
    # The second write had not begun, so it is not among the faults.
    assert performer.faults == {"was still running at the end": 1}
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_passive_side_that_is_being_replaced_is_stopped_as_well(monkeypatch, tmp_path):
    """The replacement is started while the agent is already stopping the passive side."""
    writer = made_writers.writer(address="", port=free_port(), message_b=100, messages=1)
    monkeypatch.setitem(INJECTORS, "stand-in", Program(passive="import time; time.sleep(60)"))
    successors = []
    stop = processes.stop

    async def slow_stop(process):
        await asyncio.sleep(0.3)
        return await stop(process)

    async def stopped():
        agent = await passive_side(writer, tmp_path)
        (side,) = agent.ends
        side.listened = True
        replacing = asyncio.Event()

        async def start(*words):
            replacing.set()
            successors.append(await start_writer_end(*words))
            return successors[0]

        monkeypatch.setattr("conductor.agent.end.start_writer_end", start)
        await stop(side.process)
        await replacing.wait()
        monkeypatch.setattr(processes, "stop", slow_stop)
        await agent.stop()
        return successors[0].returncode

    assert asyncio.run(stopped()) == -signal.SIGTERM
