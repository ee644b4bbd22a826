"""The hub and an agent over loopback."""

import asyncio

import pytest

from reframe_tests.injection import wire
from reframe_tests.injection.hub import AgentGoneError, Hub

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
