"""Two ends over loopback; an impostor is anyone who lacks the secret."""

import asyncio

import pytest

from injection import wire


async def _meet(client_secret: str, server_secret: str, talk):
    met = asyncio.get_running_loop().create_future()

    async def serve(reader, writer):
        try:
            met.set_result(await wire.accept(reader, writer, server_secret))
        except wire.WireError as error:
            met.set_exception(error)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = await wire.connect("127.0.0.1", port, client_secret, None)
    try:
        return await talk(client, await met)
    finally:
        client.close()
        server.close()


def test_messages_arrive_in_order_in_both_directions():
    async def talk(client, server):
        client.send({"n": 1})
        client.send({"n": 2, "text": "ü\n"})
        first, second = await server.receive(), await server.receive()
        server.send({"n": 3})
        return [first, second, await client.receive()]

    secret = wire.new_secret()
    answer = asyncio.run(_meet(secret, secret, talk))
    assert answer == [{"n": 1}, {"n": 2, "text": "ü\n"}, {"n": 3}]


def test_another_secret_is_refused():
    async def talk(client, server):
        client.send({"do": "start"})
        with pytest.raises(wire.WireError, match="not signed"):
            await server.receive()

    asyncio.run(_meet(wire.new_secret(), wire.new_secret(), talk))


def test_a_line_cannot_be_said_twice():
    async def talk(client, server):
        client.send({"do": "start"})
        await server.receive()
        client._sent = 0
        client.send({"do": "start"})
        with pytest.raises(wire.WireError, match="not signed"):
            await server.receive()

    secret = wire.new_secret()
    asyncio.run(_meet(secret, secret, talk))


def test_two_jobs_have_two_secrets_of_256_bits():
    first, second = wire.new_secret(), wire.new_secret()
    assert first != second
    assert len(bytes.fromhex(first)) == 32
