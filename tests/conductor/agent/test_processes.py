"""How an agent starts and reads processes, and whose process listens on a port."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from conductor import messages
from conductor.agent.agent import Agent
from conductor.injectors import INJECTORS
from conductor.injectors.spin import Spin
from conductor.injectors.ucx import Ucx
from records import kernel_text, processes
from tests import made_writers
from tests.conductor.conftest import RecordingWire


def exit_status_of_a_child_of(parent):
    """Return the exit status of a forked process that expects `parent` as its parent.

    It exits with 7 if it is not ended before.
    """
    pid = os.fork()
    if not pid:
        processes.signalled_with_parent(parent)()
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_whose_parent_died_before_it_was_ready_ends():
    assert exit_status_of_a_child_of(os.getpid()) == 7
    assert exit_status_of_a_child_of(os.getppid()) == 1


def test_a_line_that_is_too_long_comes_in_pieces():
    async def read():
        stream = asyncio.StreamReader(limit=64)
        stream.feed_data(b"one\n" + b"x" * 1000 + b"\ntwo\nend")
        stream.feed_eof()
        return [line async for line in processes.output_lines(stream)]

    first, *long, before, last = asyncio.run(read())
    assert (first, before, last) == (b"one\n", b"two\n", b"end")
    assert b"".join(long) == b"x" * 1000 + b"\n"


def _listener_of(port):
    """Start a process that listens on a port of 127.0.0.1 (0: any); return it and the port."""
    code = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    started = subprocess.Popen(
        ["sh", "-c", '"$@"; exit 0', "sh", sys.executable, "-c", code, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return started, int(started.stdout.readline())


def test_the_owner_of_a_port_is_found():
    """The started process is a shell. Its child has the socket."""
    holder, port = _listener_of(0)
    try:
        assert processes.listener(port, holder.pid) == "own"
        with subprocess.Popen(["sleep", "300"]) as writer:
            assert processes.listener(port, writer.pid) == "other"
            writer.kill()
    finally:
        holder.communicate()
    assert processes.listener(port, os.getpid()) is None


def test_the_processes_of_a_node_are_not_read_if_a_program_has_the_socket_itself(monkeypatch):
    """While a writer starts, this is checked many times a second."""
    monkeypatch.delattr("records.processes.descendants")
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert processes.listener(server.getsockname()[1], os.getpid()) == "own"


AGENT_OF_MANY_ENDS = """
import asyncio, resource, sys
from pathlib import Path

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1024))
from conductor import messages
from conductor.agent import agent
from conductor.injectors import INJECTORS
from conductor.injectors.spin import Spin
from tests import made_writers
from tests.conductor.conftest import RecordingWire

class Sleeper(Spin):
    def origin_command(self, writer):
        return ["sh", "-c", "ulimit -n; exec sleep 300"]

async def run():
    wire, logs = RecordingWire(), Path(sys.argv[1])
    one = agent.Agent(wire, logs)
    for index in range(40):
        writer = made_writers.writer(index=index)
        await one.execute(messages.StartWriterEnd("origin", "sleeper", writer))
    log = logs / "writer-39-origin.log"
    while log.exists() and not log.read_text():
        await asyncio.sleep(0.01)
    print(len(one.ends), [news.why_ended for news in wire.sent if news.why_ended])
    await one.stop()

INJECTORS["sleeper"] = Sleeper()
agent.run = run
agent.main()
"""


def test_an_agent_may_open_files_for_more_ends_than_the_soft_limit_allows(tmp_path):
    """By hand: 40 ends have 40 logs and 40 pipes. Their programs get the soft limit, 64."""
    command = [sys.executable, "-c", AGENT_OF_MANY_ENDS, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("40 []\n", "")
    assert (tmp_path / "writer-39-origin.log").read_text() == "64\n"


def test_the_processes_of_a_node_are_not_read_for_each_end_that_is_held_or_stopped(
    monkeypatch, tmp_path
):
    """By hand: a hold reads them once. A stop reads them once, and three times to look for srun.

    These are: before the origins, before the passive sides, and at last before those of short
    writes are stopped.
    """
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    folders = []

    def stats(folder=Path("/proc")):
        folders.append(folder)
        return read_stats(folder)

    read_stats = kernel_text.stats
    monkeypatch.setattr("records.kernel_text.stats", stats)

    class Sleeper(Spin):
        def origin_command(self, writer):
            return ["sleep", "300"]

    monkeypatch.setitem(INJECTORS, "sleeper", Sleeper())

    async def n_read(action):
        before = folders.count(Path("/proc"))
        await agent.execute(messages.ControlWriters(action, list(range(20))))
        return folders.count(Path("/proc")) - before

    async def hold_and_stop():
        for index in range(20):
            writer = made_writers.writer(index=index)
            await agent.execute(messages.StartWriterEnd("origin", "sleeper", writer))
        return await n_read("hold"), await n_read("stop")

    wire = RecordingWire()
    agent = Agent(wire, tmp_path)
    assert asyncio.run(hold_and_stop()) == (1, 4)
    placed = [len(report.placements) for report in wire.sent if hasattr(report, "placements")]
    assert placed == [20, 20]


@contextmanager
def _silent_port() -> Iterator[int]:
    """Yields a port of 127.0.0.1 that does not answer, as if behind a firewall.

    The queue of its connections is full.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as stack:
        for _ in range(3):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(server.getsockname())
        yield server.getsockname()[1]


def test_an_origin_whose_target_does_not_answer_ends_with_that_reason(monkeypatch, tmp_path):
    """TCP tries to connect for two minutes. Meanwhile the program prints nothing."""
    monkeypatch.setattr("conductor.agent.end.UNANSWERED_S", 0.5)
    monkeypatch.setattr("conductor.agent.end.CONNECT_INTERVAL_S", 0.05)
    wire = RecordingWire()
    call = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"

    class Caller(Ucx):
        def origin_command(self, writer):
            return [sys.executable, "-c", call, str(writer.port)]

    async def talk(port):
        agent = Agent(wire, tmp_path)
        writer = made_writers.writer(origin="n", target="n", port=port)
        INJECTORS["caller"] = Caller()
        await agent.execute(messages.StartWriterEnd("origin", "caller", writer))
        while not any(news.why_ended for news in wire.sent):
            await asyncio.sleep(0.01)
        await agent.stop()

    try:
        with _silent_port() as port:
            assert processes.is_connecting(port, os.getpid())
            began_s = time.monotonic()
            asyncio.run(asyncio.wait_for(talk(port), 30))
            assert time.monotonic() - began_s > 0.5
    finally:
        del INJECTORS["caller"]
    reason = f"origin side ended: port {port} of 127.0.0.1 does not answer (TCP)"
    assert wire.sent[0].why_ended == reason
    assert not processes.is_connecting(port, os.getpid())


def test_a_writer_whose_port_another_process_has_ends_with_that_reason(tmp_path):
    """The program itself would print only that an address is in use, or nothing."""
    holder, port = _listener_of(0)
    wire = RecordingWire()

    class Patient(Spin):
        def target_command(self, writer):
            return ["sleep", "300"]

    async def talk():
        agent = Agent(wire, tmp_path)
        writer = made_writers.writer(origin="n", target="n", port=port)
        INJECTORS["patient"] = Patient()
        await agent.execute(messages.StartWriterEnd("target", "patient", writer))
        while not wire.sent:
            await asyncio.sleep(0.01)
        await agent.stop()

    try:
        asyncio.run(asyncio.wait_for(talk(), 30))
    finally:
        del INJECTORS["patient"]
        holder.communicate()
    reason = f"target side ended: another process listens on port {port}: "
    assert wire.sent[0].why_ended.startswith(reason)
