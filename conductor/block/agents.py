"""Starts the agents of a block on its nodes, and connects them to the conductor's hub."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from conductor import wire
from conductor.agent.agent import node_name
from conductor.block.allocation import Allocation
from conductor.block.hub import FILES_BESIDES_AGENTS, AgentGoneError, Hub
from records import processes
from records.block_plan import BlockPlan
from records.checkout import python_main
from records.errors import MachineError
from records.last_words import cause_or_gist
from records.slurm import steps

#: Time within which agents must connect, seconds. At many sites a node runs its prolog when the
#: first step starts on it. `srun` waits 600 s for its tasks to start, and then says why it ends.
AGENTS_TIMEOUT_S = 660.0
#: File in the block's logs: output of the agents. The conductor makes it before anything else.
AGENTS_LOG = "agents.log"
_LOOPBACK = "127.0.0.1"
_REMEDY = "set 'interface' in the site file to a network interface that all nodes have"


@asynccontextmanager
async def connected_hub(plan: BlockPlan, allocation: Allocation) -> AsyncIterator[Hub]:
    """Yield a hub to which an agent on every node of the block is connected.

    At the end of the context all agents have ended. Raises MachineError if an agent does not
    connect, and AgentGoneError if one is gone.
    """
    require_open_files(allocation)
    secret = wire.new_secret()
    hub = Hub(secret)
    address = conductor_address(plan)
    try:
        port = await hub.listen(address)
    except OSError as error:
        raise MachineError(f"cannot listen on {address}: {error.strerror}; {_REMEDY}") from None
    launcher = await _start_agents(plan, allocation, f"{address}:{port}", secret)
    log = plan.logs / AGENTS_LOG
    try:
        await _await_agents(hub, allocation, launcher, log)
        try:
            yield hub
        except AgentGoneError as error:
            await _disconnect(hub, launcher)  # its last lines come when all agents have ended
            raise _with_last_lines(error, log) from None
    finally:
        await _disconnect(hub, launcher)
        await steps.stop(launcher)


async def _disconnect(hub: Hub, launcher: asyncio.subprocess.Process) -> None:
    """Let all agents end, and wait for the end of their launcher, at most for `GRACE_S`."""
    hub.close()
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(launcher.wait(), processes.GRACE_S)


def _with_last_lines(error: MachineError, log: Path) -> MachineError:
    """Return the error with what the agents or their launcher printed last.

    It has the same type, which decides the outcome of the block.
    """
    last_lines = cause_or_gist(log.read_text(errors="replace")) or "no output"
    return type(error)(f"{error}; {log}: {last_lines}")


def require_open_files(allocation: Allocation) -> None:
    """Raise MachineError if the limit of open files is too low for a connection to each agent."""
    n_nodes = len(allocation.nodes)
    needed = n_nodes + FILES_BESIDES_AGENTS
    allowed = processes.raise_file_limit()
    if needed > allowed:
        raise MachineError(
            f"{node_name()}: agents on {n_nodes} nodes need {needed} open files; the hard"
            f" limit (ulimit -Hn) is {allowed}: have it raised, or take fewer nodes"
        )


async def _start_agents(
    plan: BlockPlan, allocation: Allocation, address: str, secret: str
) -> asyncio.subprocess.Process:
    """Start the agents, and return the process of their launcher."""
    n_nodes = str(len(allocation.nodes))
    launcher_command = [word.replace("{n_nodes}", n_nodes) for word in plan.agent_launcher]
    command = [*launcher_command, *python_main("conductor.agent.agent")]
    environment = {
        wire.ADDRESS_VARIABLE: address,
        wire.SECRET_VARIABLE: secret,
        wire.LOGS_VARIABLE: str(plan.logs),
    }
    if plan.interface and plan.origin_policy != "same_host":
        environment[wire.INTERFACE_VARIABLE] = plan.interface
    if plan.origin_policy in ("hetjob", "reservation"):
        environment |= agent_task_variables(allocation)
    with (plan.logs / AGENTS_LOG).open("ab") as log:
        return await processes.spawn(command, environment, plan.origin_cpus, log, log)


async def _await_agents(
    hub: Hub, allocation: Allocation, launcher: asyncio.subprocess.Process, log: Path
) -> None:
    """Wait until all agents are connected.

    Raises MachineError, with the last lines of their launcher, if one is not connected in time.
    """
    connections = asyncio.ensure_future(hub.await_agents(allocation.nodes, AGENTS_TIMEOUT_S))
    launcher_end = asyncio.ensure_future(launcher.wait())
    try:
        await asyncio.wait([connections, launcher_end], return_when=asyncio.FIRST_COMPLETED)
        if not connections.done():
            raise MachineError("the agents' launcher ended before all agents had connected")
        await connections
    except MachineError as error:
        raise _with_last_lines(error, log) from None
    finally:
        connections.cancel()
        launcher_end.cancel()


def agent_task_variables(allocation: Allocation) -> dict[str, str]:
    """Return variables with which `srun` starts one agent per node of both components.

    By default srun uses the number of tasks that the job requested for the application. If there
    are more tasks than nodes, it ignores `--ntasks-per-node` and starts an agent per rank.
    """
    return {
        "SLURM_NTASKS_HET_GROUP_0": str(len(allocation.targets)),
        "SLURM_NTASKS_HET_GROUP_1": str(len(allocation.origins)),
    }


def conductor_address(plan: BlockPlan) -> str:
    """Return the address to which agents connect.

    Raises MachineError if other nodes cannot reach it.
    """
    if plan.origin_policy == "same_host":
        return _LOOPBACK
    try:
        if plan.interface:
            return wire.interface_address(plan.interface)
        address = socket.gethostbyname(socket.gethostname())
    except wire.WireError as error:
        raise MachineError(str(error)) from None
    except OSError as error:
        raise MachineError(f"{socket.gethostname()}: {error.strerror}; {_REMEDY}") from None
    if ipaddress.ip_address(address).is_loopback:
        raise MachineError(
            f"{socket.gethostname()} resolves to {address}, which other nodes cannot reach;"
            f" {_REMEDY}"
        )
    return address
