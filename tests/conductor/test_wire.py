"""Two ends over loopback; a stranger is anyone who lacks the secret."""

import asyncio
import errno
from contextlib import suppress

import pytest

from conductor import wire


async def _served(accepting, talk):
    """What `talk(port)` returns while calls are answered by `accepting(reader, writer)`."""
    server = await asyncio.start_server(accepting, "127.0.0.1", 0, limit=wire.LIMIT_B)
    try:
        return await talk(server.sockets[0].getsockname()[1])
    finally:
        server.close()


def _refusing(refusals):
    """Answers a call with a secret of its own, and keeps why it refused the caller."""

    async def serve(reader, writer):
        try:
            await wire.accept(reader, writer, wire.new_secret())
        except wire.WireError as error:
            refusals.append(str(error))
        writer.close()

    return serve


def _meet(talk):
    """What `talk(client, server)` returns, both ends of a connection."""
    secret = wire.new_secret()

    async def run():
        met = asyncio.get_running_loop().create_future()

        async def serve(reader, writer):
            met.set_result(await wire.accept(reader, writer, secret))

        async def call(port):
            client = await wire.connect("127.0.0.1", port, secret, None)
            try:
                return await talk(client, await met)
            finally:
                client.close()

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
    assert len(bytes.fromhex(secret)) == 32  # 256 bits, another each time
    assert secret != wire.new_secret()
    answer = _meet(talk)
    assert answer == [{"n": 1}, {"n": 2, "text": "ü\n"}, {"n": 3}]


def test_another_secret_is_refused_before_anything_else_is_read():
    refusals = []

    async def talk(port):
        client = await wire.connect("127.0.0.1", port, wire.new_secret(), None)
        client.send({"n": 1})
        with pytest.raises(wire.WireError, match="the connection closed"):
            await client.receive()
        client.close()

    asyncio.run(_served(_refusing(refusals), talk))
    assert refusals == ["the first line was not the job's secret"]


def test_a_line_beyond_the_limit_ends_the_connection(monkeypatch):
    monkeypatch.setattr(wire, "LIMIT_B", 100_000)

    async def talk(client, server):
        client.send({"text": "x" * 200_000})
        with pytest.raises(wire.WireError, match="a line is longer than 100000 bytes"):
            await server.receive()

    _meet(talk)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "the job's secret did not come within 0 s"),
        (b"x" * 20, "the job's secret did not come within 0 s"),
        (b"\n" * 65, "the first line was not the job's secret"),
        (b"\xff" * 1_000_000, "the first line was not the job's secret"),
    ],
)
def test_a_stranger_is_given_little_room_and_time(monkeypatch, said, why):
    if "did not come" in why:
        monkeypatch.setattr(wire, "FIRST_S", 0.2)
    refusals = []

    async def talk(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 10.0)
        writer.close()

    asyncio.run(_served(_refusing(refusals), talk))
    assert refusals == [why]


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ETIMEDOUT, wire.SilentNodeError),
        (errno.EHOSTUNREACH, wire.SilentNodeError),
        (errno.ECONNRESET, wire.WireError),
    ],
)
def test_a_node_that_is_gone_is_told_from_a_process_that_is(number, kind):
    async def receive():
        reader = asyncio.StreamReader()
        reader.set_exception(OSError(number, "what the kernel says"))
        await wire.Wire(reader, None).receive()

    with pytest.raises(wire.WireError) as error:
        asyncio.run(receive())
    assert type(error.value) is kind
