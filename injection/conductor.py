"""The conductor: runs the pairs of one block inside the allocation, on its first node.

For each run it starts the writers, waits until they are at speed, starts the application, watches
both, stops all, and appends the sample. It ends with `block.json` in the block's logs, which says
how the block went, and leaves no process behind.

    python -m injection.conductor PLAN.json
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from analysis.sample import Sample
from injection import allocation, processes, wire
from injection.allocation import Allocation, AllocationError
from injection.evidence import claims
from injection.evidence.rates import rate_alone
from injection.hub import AgentGoneError, Hub, HubError
from injection.injectors import INJECTORS
from injection.machine import versions
from injection.plan import BlockPlan
from injection.runs import BlockRunner, Run
from injection.store import Store

#: How long agents may take to call, seconds; a large job's srun needs its time.
_AGENTS_TIMEOUT_S = 120.0
#: Rows that a writer's rate alone is taken from, after the first.
_ALONE_ROWS = 3
#: How often the owner is looked at, seconds.
_OWNER_S = 0.5
#: Outcomes after which it is no use to go on, when repetition did not help.
_HOPELESS = {
    "injector_never_ready",
    "injector_died",
    "application_failed",
    "application_hung",
    "no_fom",
}


class BlockError(Exception):
    """The block cannot go on. One line for people."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


async def conduct(plan: BlockPlan, logs: Path) -> None:
    """Run the whole block; raises BlockError where it cannot be finished."""
    store = Store(Path(plan.nimc_dir), plan.case)
    nodes = allocation.resolve(plan)
    programs = versions.detect()
    secret = wire.new_secret()
    hub = Hub(secret)
    address = allocation.own_address(plan)
    port = await hub.listen(address)
    agents = await _start_agents(plan, nodes, f"{address}:{port}", secret, logs)
    try:
        await _gather(hub, nodes, agents, logs / "agents.log")
        provenance = store.keep_provenance(
            {
                **plan.provenance,
                "programs": programs,
                "nodes": hub.facts,
                "clock_offsets_s": hub.clock_offsets_s,
            }
        )
        runner = BlockRunner(plan, nodes, hub, logs, provenance)
        for arm in plan.arms:
            await _measure_alone(plan, arm, nodes, hub, runner, logs)
        await _run_block(plan, runner, store)
    finally:
        hub.close()
        for agent in agents:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(agent.wait(), processes.GRACE_S)
            await processes.stop(agent)


async def _start_agents(
    plan: BlockPlan, nodes: Allocation, address: str, secret: str, logs: Path
) -> list[asyncio.subprocess.Process]:
    n_nodes = str(len(nodes.nodes))
    launcher = [word.replace("{n_nodes}", n_nodes) for word in plan.agent_launcher]
    command = [*launcher, sys.executable, "-m", "injection.agent"]
    environment = {wire.ADDRESS_VARIABLE: address, wire.SECRET_VARIABLE: secret}
    if plan.interface and plan.origin_policy != "same_host":
        environment[wire.INTERFACE_VARIABLE] = plan.interface
    if plan.origin_policy in ("hetjob", "reservation"):
        environment |= allocation.tasks_of_agents(nodes)
    with (logs / "agents.log").open("ab") as log:
        return [await processes.spawn(command, environment, plan.origin_cpus, log, log)]


async def _gather(
    hub: Hub, nodes: Allocation, agents: list[asyncio.subprocess.Process], log: Path
) -> None:
    """Wait for the agents; HubError, with what their launcher said last, where they do not come."""
    calls = asyncio.ensure_future(hub.gather(nodes.nodes, _AGENTS_TIMEOUT_S))
    ends = [asyncio.ensure_future(agent.wait()) for agent in agents]
    try:
        await asyncio.wait([calls, *ends], return_when=asyncio.FIRST_COMPLETED)
        if not calls.done():
            raise HubError("the agents' launcher ended before all of them had called")
        await calls
    except HubError as error:
        said = log.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(said) if line.strip()), "nothing")
        raise type(error)(f"{error}; {log} says last: {last}") from None
    finally:
        for task in (calls, *ends):
            task.cancel()


async def _measure_alone(
    plan: BlockPlan, arm: str, nodes: Allocation, hub: Hub, runner: BlockRunner, logs: Path
) -> None:
    """Find the rate that each writer of an arm reaches while no application runs."""
    name = plan.injector_of(arm)
    if name is None or arm in runner.alone:
        return
    if (count := plan.timed_writers(arm)) is not None:
        if (
            runner.timed
            and count
            and (fault := await runner.timed.rehearse(count, runner.next_turn(), logs))
        ):
            raise BlockError("injector_never_ready", f"{arm}: {fault}")
        return
    injector = INJECTORS[name]
    if injector.row_s is None:  # a control's rate is its share of a core
        runner.alone[arm] = [1.0] * len(allocation.assign(plan, nodes, hub.addresses, 0))
        return
    writers = allocation.assign(plan, nodes, hub.addresses, runner.next_turn())
    states = await hub.start(injector, writers, logs, plan.demand.ready_timeout_s)

    def rows(more_than: int) -> Callable[[], bool]:
        return lambda: all(len(state.rows) > more_than or state.ended for state in states)

    timeout_s = plan.demand.ready_timeout_s + _ALONE_ROWS * injector.row_s
    # The first row ramps up: neither the rate alone nor the count is taken from it.
    complete = await hub.wait_for(rows(0), timeout_s)
    before = await runner.count(arm)
    complete = complete and await hub.wait_for(rows(_ALONE_ROWS), timeout_s)
    runner.counted_alone[arm] = claims.passed(before, await runner.count(arm))
    await hub.stop()
    for state in states:
        who = f"writer {state.writer.index} ({name}, {state.writer.origin})"
        if state.ended:
            raise BlockError("injector_never_ready", f"{who}: {state.ended}")
        if not complete:
            raise BlockError("injector_never_ready", f"{who} reported no rate in {timeout_s:.0f} s")
    runner.alone[arm] = [rate_alone(state.rows) for state in states]


async def _run_block(plan: BlockPlan, runner: BlockRunner, store: Store) -> None:
    for index in range(plan.warmups):
        await _repeat(plan, runner, store, Run("off", -1 - index, 0, 0, warmup=True))
    for pair in range(plan.pairs):
        for position, arm in enumerate(plan.order(pair)):
            await _repeat(plan, runner, store, Run(arm, pair, position, 0))


async def _repeat(plan: BlockPlan, runner: BlockRunner, store: Store, run: Run) -> None:
    """Run until it counts, or until it was repeated as often as allowed."""
    for attempt in range(plan.demand.retries + 1):
        sample = await runner.measure(run.again(attempt))
        store.append(sample)
        print(_line(sample), flush=True)
        if sample.outcome == "kept":
            return
    if sample.outcome in _HOPELESS:
        raise BlockError(sample.outcome, f"{sample.key}: {sample.reason}")


def _line(sample: Sample) -> str:
    if sample.outcome != "kept":
        return f"{sample.key} {sample.outcome}: {sample.reason}"
    return f"{sample.key} {sample.fom:.6g} {sample.fom_unit} in {sample.elapsed_s:.3f} s"


async def _watch_owner(pid: int) -> None:
    """Return when the owner is gone."""
    born = processes.start_time(pid)
    while born is not None and processes.start_time(pid) == born:
        await asyncio.sleep(_OWNER_S)


async def _supervise(plan: BlockPlan, logs: Path) -> tuple[int, str, str | None]:
    """Conduct until done, told to stop, or orphaned. Returns exit status, state and reason."""
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(conduct(plan, logs))
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signum, work.cancel)
    if plan.owner_pid:
        owner = asyncio.ensure_future(_watch_owner(plan.owner_pid))
        owner.add_done_callback(lambda _: work.cancel())
    try:
        await work
    except asyncio.CancelledError:
        return 143, "cancelled", "told to stop, or left alone"
    except BlockError as error:
        return 1, error.outcome, str(error)
    except AgentGoneError as error:
        return 3, "node_failed", str(error)
    except (AllocationError, HubError) as error:
        return 3, "machine_failed", str(error)
    except OSError as error:
        return 3, "machine_failed", f"{error.filename or plan.nimc_dir}: {error.strerror or error}"
    return 0, "done", None


def main() -> None:
    """Entry point. Exit status 0 done, 1 the block could not be finished, 3 the machine failed."""
    processes.become_subreaper()
    plan = BlockPlan.load(Path(sys.argv[1]))
    logs = Path(plan.nimc_dir) / "logs" / plan.case / str(plan.block)
    started_s = time.time()
    try:
        logs.mkdir(parents=True, exist_ok=True)
        code, state, reason = asyncio.run(_supervise(plan, logs))
    except OSError as error:
        code, state, reason = 3, "machine_failed", f"{error.filename}: {error.strerror}"
    finally:
        processes.kill_descendants()
    report = {
        "state": state,
        "reason": reason,
        "started_s": started_s,
        "finished_s": time.time(),
        "pid": os.getpid(),
    }
    with suppress(OSError):
        (logs / "block.json").write_text(json.dumps(report, indent=1))
    if reason:
        print(f"block {plan.case}/{plan.block} {state}: {reason}", file=sys.stderr, flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
