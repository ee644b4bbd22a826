"""Connections between agents and conductor, over loopback.

A stranger is a process that does not have the secret of the job.
"""

import asyncio
import errno
import gc
import hmac
import socket
import struct
from contextlib import suppress

import pytest

from conductor import wire

SECRET = wire.new_secret()
#: A test fails if a connection is not closed before the garbage collector finds it.
pytestmark = [
    pytest.mark.filterwarnings("error::ResourceWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _collected():
    yield
    gc.collect()


async def _close(*writers):
    for writer in writers:
        writer.close()
    for writer in writers:
        with suppress(ConnectionError):  # the other end closed it before it had read all lines
            await writer.wait_closed()


async def _served(accepting, talk):
    """Return the result of `talk(port)`; meanwhile `accepting(connection)` handles each call."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        async def serve():
            while True:
                await accepting((await loop.sock_accept(listener))[0])

        serving = asyncio.create_task(serve())
        try:
            return await asyncio.wait_for(talk(listener.getsockname()[1]), 60.0)
        finally:
            # Before Python 3.12, a task may miss its cancellation while a wait of it ends.
            while not serving.done():
                serving.cancel()
                await asyncio.wait([serving], timeout=0.1)


def _refusing(refusals):
    """Return a handler of calls that has another secret, and adds its errors to `refusals`."""

    async def serve(connection):
        try:
            await wire.admit(connection, wire.new_secret())
        except wire.WireError as error:
            refusals.append(str(error))
        connection.close()

    return serve


def _meet(talk):
    """Return the result of `talk(client, server)`, where these are the ends of a connection."""
    secret = wire.new_secret()

    async def run():
        met = asyncio.get_running_loop().create_future()

        async def serve(connection):
            await wire.admit(connection, secret)
            met.set_result(await wire.open_wire(connection))

        async def call(port):
            client = await wire.connect("127.0.0.1", port, secret, None)
            server = await met
            try:
                return await talk(client, server)
            finally:
                await _close(client.writer, server.writer)

        return await _served(serve, call)

    return asyncio.run(run())


def test_messages_arrive_in_order_in_both_directions():
    async def talk(client, server):
        client.send({"n": 1})
        client.send({"n": 2, "text": "ü\n"})
        first, second = await server.receive(), await server.receive()
        server.send({"n": 3})
        return [first, second, await client.receive()]

    secret = wire.new_secret()
    assert len(bytes.fromhex(secret)) == 32  # 256 bits
    assert secret != wire.new_secret()
    answer = _meet(talk)
    assert answer == [{"n": 1}, {"n": 2, "text": "ü\n"}, {"n": 3}]


def test_an_agent_sends_no_report_to_a_conductor_without_the_secret():
    """It sends only a challenge, which nobody can answer without the secret."""
    messages, refusals = [], []

    async def impostor(connection):
        loop = asyncio.get_running_loop()
        messages.append(await loop.sock_recv(connection, 1000))
        # The impostor sends the agent's own challenge back.
        await loop.sock_sendall(connection, messages[0] + messages[0])
        messages.append(await loop.sock_recv(connection, 1000))
        connection.close()

    def talk(is_over):
        async def call(port):
            with pytest.raises(wire.StrangerError, match="does not have the job's secret"):
                await wire.connect("127.0.0.1", port, SECRET, None)
            while not is_over():
                await asyncio.sleep(0.01)

        return call

    asyncio.run(_served(impostor, talk(lambda: len(messages) == 2)))
    assert [len(message) for message in messages] == [64, 0]
    assert SECRET.encode() not in messages[0]
    asyncio.run(_served(_refusing(refusals), talk(lambda: refusals)))
    assert refusals == ["the connection closed"]


def test_an_answer_is_valid_for_one_connection_and_one_end_only():
    """The expected answer is the HMAC of the role and both challenges, by the standard library."""
    answers = []

    async def keeping(connection):
        loop = asyncio.get_running_loop()
        challenge, own = await loop.sock_recv(connection, 64), b"c" * 64
        mac = hmac.new(SECRET.encode(), b"conductor" + challenge + own, "sha256").hexdigest()
        await loop.sock_sendall(connection, own + mac.encode())
        answers.append(await loop.sock_recv(connection, 64))
        expected = hmac.new(SECRET.encode(), b"agent" + challenge + own, "sha256").hexdigest()
        assert answers[-1] == expected.encode()
        connection.close()

    async def talk(port):
        for _ in range(2):
            client = await wire.connect("127.0.0.1", port, SECRET, None)
            with pytest.raises(wire.WireError):
                await client.receive()
            await _close(client.writer)

    asyncio.run(_served(keeping, talk))
    assert answers[0] != answers[1]


def test_an_agent_whose_call_a_busy_conductor_closes_calls_again(monkeypatch):
    monkeypatch.setattr(wire, "RETRY_S", 0.01)
    calls = []

    async def busy(connection):
        calls.append(connection)
        if len(calls) < 3:
            connection.close()
        else:
            await wire.admit(connection, SECRET)
            server = await wire.open_wire(connection)
            server.send({"n": 3})
            await _close(server.writer)

    async def talk(port):
        client = await wire.connect("127.0.0.1", port, SECRET, None)
        assert await client.receive() == {"n": 3}
        await _close(client.writer)

    asyncio.run(_served(busy, talk))
    assert len(calls) == 3


def test_a_line_beyond_the_limit_ends_the_connection(monkeypatch):
    monkeypatch.setattr(wire, "LONGEST_LINE_B", 100_000)

    async def talk(client, server):
        client.send({"text": "x" * 200_000})
        with pytest.raises(wire.WireError, match="a line is longer than 100000 bytes"):
            await server.receive()

    _meet(talk)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"", "no proof of the job's secret came within 0 s"),
        (b"x" * 100, "no proof of the job's secret came within 0 s"),
        (b"\n" * 128, "the other end does not have the job's secret"),
        (b"\xff" * 1_000_000, "the other end does not have the job's secret"),
    ],
)
def test_a_stranger_may_send_few_bytes_and_take_little_time(monkeypatch, sent, why):
    if "no proof" in why:
        monkeypatch.setattr(wire, "PROOF_TIMEOUT_S", 0.2)
    refusals = []

    async def talk(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 10.0)
        await _close(writer)

    asyncio.run(_served(_refusing(refusals), talk))
    assert refusals == [why]


def test_a_caller_that_resets_its_connection_is_refused_in_one_line():
    refusals = []

    async def talk(port):
        caller = socket.create_connection(("127.0.0.1", port))
        at_once = struct.pack("ii", 1, 0)  # `close` resets the connection without a wait
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        caller.close()
        while not refusals:
            await asyncio.sleep(0.01)

    asyncio.run(_served(_refusing(refusals), talk))
    assert refusals == ["the connection closed"]


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ETIMEDOUT, wire.SilentNodeError),
        (errno.EHOSTUNREACH, wire.SilentNodeError),
        (errno.ECONNRESET, wire.ClosedError),
    ],
)
def test_a_silent_node_and_an_ended_process_raise_different_errors(number, kind):
    async def receive():
        reader = asyncio.StreamReader()
        reader.set_exception(OSError(number, "what the kernel says"))
        await wire.Wire(reader, None).receive()

    with pytest.raises(wire.WireError) as error:
        asyncio.run(receive())
    assert type(error.value) is kind


@pytest.mark.parametrize(
    ("context", "line"),
    [
        ({"message": "task failed", "exception": OSError("a\nb")}, "task failed: OSError: a b\n"),
        ({"message": "task was pending"}, "task was pending\n"),
    ],
)
def test_an_error_that_no_task_handled_is_one_line(capsys, context, line):
    wire.print_in_one_line(None, context)
    assert capsys.readouterr().err == line
