"""The address over which agents reach the conductor, and how agents are started."""

import asyncio
import socket
import sys
from dataclasses import replace

import pytest

from conductor import messages, wire
from conductor.agent import agent
from conductor.block import agents
from conductor.block.allocation import Allocation
from conductor.block.hub import AgentGoneError, Hub
from records.errors import MachineError
from tests.conductor.block_plans import PLAN
from tests.conductor.conftest import LOGS

APART = replace(PLAN, origin_policy="hetjob")


def other_interface() -> tuple[str, str]:
    """Return the name and address of a network interface that is not the loopback."""
    for _, name in socket.if_nameindex():
        try:
            address = wire.interface_address(name)
        except wire.WireError:
            continue
        if not address.startswith("127."):
            return name, address
    pytest.skip("this host has no network interface but the loopback")


def test_the_address_of_the_interface_asked_for():
    assert agents.conductor_address(replace(APART, interface="lo")) == "127.0.0.1"
    with pytest.raises(MachineError, match="interface no-such: No such device"):
        agents.conductor_address(replace(APART, interface="no-such"))


def test_a_name_that_only_this_host_finds_is_refused(monkeypatch):
    # Debian's installer writes this address of the host's name into /etc/hosts.
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "127.0.1.1")
    with pytest.raises(MachineError, match=r"resolves to 127\.0\.1\.1, .*'interface'"):
        agents.conductor_address(APART)
    assert agents.conductor_address(replace(APART, origin_policy="same_host")) == "127.0.0.1"


def test_a_name_that_cannot_be_resolved_is_reported_with_the_remedy(monkeypatch):
    def unknown(_):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    with pytest.raises(MachineError) as error:
        agents.conductor_address(APART)
    assert str(error.value).startswith(f"{socket.gethostname()}: Name or service not known; set ")


def test_an_address_of_another_host_is_reported_with_the_remedy(monkeypatch):
    # 192.0.2.0/24 is for documentation. An old line of /etc/hosts may name such an address.
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "192.0.2.77")

    async def connect():
        async with agents.connected_hub(APART, Allocation(["n1"], ["n2"])):
            pass

    with pytest.raises(MachineError, match=r"cannot listen on 192\.0\.2\.77: .*'interface'"):
        asyncio.run(connect())


def test_agents_call_from_the_interface_asked_for(monkeypatch):
    interface, address = other_interface()
    secret = wire.new_secret()

    async def talk():
        hub = Hub(secret)
        port = await hub.listen("127.0.0.1")
        monkeypatch.setenv(wire.ADDRESS_VARIABLE, f"127.0.0.1:{port}")
        monkeypatch.setenv(wire.SECRET_VARIABLE, secret)
        monkeypatch.setenv(wire.INTERFACE_VARIABLE, interface)
        monkeypatch.setenv(wire.LOGS_VARIABLE, str(LOGS))
        calling = asyncio.create_task(agent.run())
        await hub.await_agents([agent.node_name()], 10.0)
        addresses = hub.addresses
        hub.close()
        await asyncio.wait_for(calling, 10.0)
        return addresses

    assert asyncio.run(talk()) == {agent.node_name(): address}


def test_a_job_of_many_ranks_starts_one_agent_a_node():
    # According to the source of srun, --ntasks-per-node is ignored if it does not agree with the
    # number of tasks, which may come from the environment. The number of tasks of a component of a
    # heterogeneous job overrides that of the job.
    nodes = Allocation(["n1", "n2", "n3"], ["n8", "n9"])
    assert agents.agent_task_variables(nodes) == {
        "SLURM_NTASKS_HET_GROUP_0": "3",
        "SLURM_NTASKS_HET_GROUP_1": "2",
    }


def test_agents_may_start_as_late_as_srun_lets_them(monkeypatch, tmp_path):
    """srun gives up after 600 s (`slurm_step_launch_wait_start()`), with a message that says why.

    The conductor waits longer, so that this message is shown.
    """
    limits_s: list[float] = []

    async def await_agents(_hub: Hub, _nodes: list[str], timeout_s: float) -> None:
        limits_s.append(timeout_s)

    async def connect() -> None:
        plan = replace(PLAN, nimc_dir=str(tmp_path), agent_launcher=["true"])
        plan.logs.mkdir(parents=True)
        async with agents.connected_hub(plan, Allocation(["n1"], ["n1"])):
            pass

    monkeypatch.setattr(Hub, "await_agents", await_agents)
    asyncio.run(connect())
    assert limits_s[0] > 600


#: An agent that fails when it is to end its short writes.
FAILING_AGENT = """
from conductor import messages
from conductor.agent import agent
from records.errors import MachineError

carry_out = agent.Agent.execute

async def execute(self, order):
    if isinstance(order, messages.FinishWrites):
        raise MachineError("process 77 goes on after SIGKILL")
    await carry_out(self, order)

agent.Agent.execute = execute
agent.main()
"""


def test_the_last_line_of_an_agent_that_fails_is_the_reason(tmp_path):
    plan = replace(
        PLAN, nimc_dir=str(tmp_path), agent_launcher=[sys.executable, "-c", FAILING_AGENT]
    )
    plan.logs.mkdir(parents=True)
    name = agent.node_name()

    async def connect() -> None:
        async with agents.connected_hub(plan, Allocation([name], [name])) as hub:
            hub.send(name, messages.FinishWrites(0.0))
            await hub.wait_for(lambda: False, 30.0)

    with pytest.raises(AgentGoneError) as error:
        asyncio.run(connect())
    log = plan.logs / "agents.log"
    line = f"agent on {name}: process 77 goes on after SIGKILL"
    assert log.read_text() == f"{line}\n"
    assert str(error.value) == (
        f"the agent on {name} is gone: the connection closed; {log}: {line}"
    )
