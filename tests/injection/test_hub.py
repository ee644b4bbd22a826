"""The hub and an agent over loopback."""

import asyncio

import pytest

from injection import wire
from injection.evidence.schedule import Done
from injection.hub import AgentGoneError, Hub

SECRET = wire.new_secret()


def test_an_agent_that_hangs_up_is_told_by_its_node():
    async def talk():
        hub = Hub(SECRET)
        port = await hub.listen("127.0.0.1")
        agent = await wire.connect("127.0.0.1", port, SECRET, None)
        agent.send({"node": "n7", "facts": {}})
        await hub.wait_for(lambda: "n7" in hub.facts, 0.5)
        agent.close()
        try:
            await hub.wait_for(lambda: False, 10.0)
        finally:
            hub.close()

    with pytest.raises(AgentGoneError, match="the agent on n7 is gone"):
        asyncio.run(talk())


def test_an_origin_tells_thousands_of_writes_at_once():
    """A write a second for three hours, about 900 kB in one line."""
    done = [[number, 1.7e9 + number, 1.7e9 + number + 0.987654321, 6.4e9, 0.123456789]
            for number in range(10_800)]  # fmt: skip

    async def talk():
        hub = Hub(SECRET)
        port = await hub.listen("127.0.0.1")
        agent = await wire.connect("127.0.0.1", port, SECRET, None)
        agent.send({"node": "n7", "facts": {}})
        await hub.wait_for(lambda: "n7" in hub.facts, 0.5)
        agent.send({"event": "written", "done": done, "faults": {}})
        try:
            return await hub.finish(["n7"], 5.0)
        finally:
            agent.close()
            hub.close()

    written = asyncio.run(talk())["n7"]
    assert written.done == [Done(*each) for each in done]


def test_a_second_agent_of_a_node_is_hung_up_on():
    async def talk():
        hub = Hub(SECRET)
        port = await hub.listen("127.0.0.1")
        first, second = [await wire.connect("127.0.0.1", port, SECRET, None) for _ in range(2)]
        first.send({"node": "n7", "facts": {"which": 1}})
        await hub.wait_for(lambda: "n7" in hub.facts, 0.5)
        second.send({"node": "n7", "facts": {"which": 2}})
        with pytest.raises(wire.WireError):
            await asyncio.wait_for(second.receive(), 5.0)
        first.send({"event": "written", "done": [], "faults": {}})
        written = await hub.finish(["n7"], 5.0)
        facts = hub.facts
        hub.close()
        return facts, list(written)

    assert asyncio.run(talk()) == ({"n7": {"which": 1}}, ["n7"])


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"x" * 300_000, b""])
def test_strangers_are_hung_up_on(said):
    faults = []

    async def talk():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: faults.append(what))
        hub = Hub(SECRET)
        port = await hub.listen("127.0.0.1")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        writer.write_eof()
        greeting = await reader.readline()
        try:
            return greeting, await asyncio.wait_for(reader.read(), 5.0)
        except ConnectionResetError:
            return greeting, b""
        finally:
            writer.close()
            hub.close()

    greeting, answer = asyncio.run(talk())
    assert (len(greeting), answer) == (33, b"")
    assert faults == []
