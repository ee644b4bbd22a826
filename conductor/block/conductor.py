"""The conductor: runs the pairs of one block inside the allocation, on its first node.

For each run it starts or resumes the writers, waits until they are at speed, starts the
application, watches both, holds the writers, and appends the sample. At the end it writes the state
of the block to `block.json` in the block's logs, and leaves no process behind.

Its caller (`reframe_tests/conduct.py`) passes the readers of the application's output.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from conductor import wire
from conductor.agent.agent import node_name
from conductor.block import allocation
from conductor.block.allocation import Allocation
from conductor.block.alone import AloneRates
from conductor.block.application import Run
from conductor.block.hub import FILES, AgentGoneError, Hub
from conductor.block.readers import Readers
from conductor.block.runs import BlockError, BlockRunner
from conductor.block.store import Store, note, noted
from conductor.judge import length
from records import clock, processes
from records.checkout import callers_environment, python_main
from records.errors import MachineError
from records.files import replace_text
from records.interrupts import STOPPING
from records.last_words import quoted
from records.machine import program
from records.machine.load import BLOCK_VARIABLE
from records.machine.program import program_facts
from records.plan import UNREAD, BlockPlan
from records.sample import Sample

#: How long agents may take to connect, seconds; srun takes long in a large job.
_AGENTS_TIMEOUT_S = 120.0
_NO_MODULE = (
    "'module' is not a command in the job's shell: set BASH_ENV, or use_login_shell in configs/"
)
_TOO_SHORT = "this check cannot be lengthened: set a larger problem"
#: How often the owner process is checked, seconds.
_OWNER_S = 0.5
#: Outcomes that end the block if repeating the run did not help.
_HOPELESS = {
    "injector_never_ready",
    "injector_died",
    "application_failed",
    "application_hung",
    "no_fom",
}


#: A block ends if so many runs, its first, are rejected: others would be as well.
_FIRST = 8
#: What the reason of a rejected run has in it -> what to do.
_ADVICE = {
    "foreign processes": "wait until they end, or raise the limit foreign_cpus",
    "hypervisor": "take a host of your own, or raise the limit steal_share",
    "although nothing wrote": "wait until that traffic ends, or raise the limit foreign_share",
    "of its rate alone": "leave the writers a core, or lower the limit min_share",
    "": "docs/reliability.md has what each reason means",
}


#: What is done in an allocation: it is given the plan, and the folder of the block's logs.
Work = Callable[[BlockPlan, Path], Coroutine[Any, Any, None]]


async def conduct(plan: BlockPlan, logs: Path, readers: Readers) -> None:
    """Run the whole block; raises BlockError if it cannot be finished."""
    logs.mkdir(parents=True, exist_ok=True)
    # Runs whose output the check itself reads become samples only once it has read them.
    samples = logs / UNREAD if readers.fom is None else None
    store = Store(Path(plan.nimc_dir), plan.case, samples)
    nodes = allocation.resolve(plan)
    _require_modules(plan)
    programs = program.detect_versions()
    async with connected(plan, nodes, logs) as hub:
        clock.require_near(nodes.targets[0], hub.clock_offsets_s)
        provenance = store.keep_provenance(
            {
                **plan.provenance,
                "programs": programs,
                "program": _program(plan),
                "modules": program.loaded_modules(os.environ),
                "nodes": hub.facts,
                "clock_offsets_s": hub.clock_offsets_s,
            }
        )
        runner = BlockRunner(plan, nodes, hub, logs, provenance, readers)
        rates = AloneRates(runner)
        for treatment in plan.treatments:
            if treatment.writes:
                await rates.learn(treatment.writes)
        earlier = store.pairs_made()
        await _warm_up(runner, store, rates)
        for pair in range(plan.pairs):
            for position, treatment in enumerate(plan.order(earlier + pair)):
                await _repeat(Run(treatment, pair, position, 0), runner, store, rates)


def _program(plan: BlockPlan) -> dict[str, Any] | None:
    """Facts of the application's program; where that of a user lies is not stored."""
    if not plan.program:
        return None
    if not plan.folder:
        return program_facts(plan.program, os.environ, Path.cwd())
    facts = program_facts(plan.program, callers_environment(os.environ), Path(plan.folder))
    return {**facts, "name": os.path.basename(plan.program), "path": None}


@asynccontextmanager
async def connected(plan: BlockPlan, nodes: Allocation, logs: Path) -> AsyncIterator[Hub]:
    """A hub with an agent on every node of the block; at its end all agents have ended."""
    _require_files(nodes)
    secret = wire.new_secret()
    hub = Hub(secret)
    address = allocation.own_address(plan)
    port = await hub.listen(address)
    agents = await _start_agents(plan, nodes, f"{address}:{port}", secret, logs)
    try:
        await _gather(hub, nodes, agents, logs / "agents.log")
        yield hub
    finally:
        hub.close()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(agents.wait(), processes.GRACE_S)
        await processes.stop(agents)


def _require_files(nodes: Allocation) -> None:
    """Raise MachineError if this process may not have a file for the connection of each agent."""
    needed, allowed = len(nodes.nodes) + FILES, processes.allow_files()
    if needed > allowed:
        raise MachineError(
            f"{node_name()}: agents on {len(nodes.nodes)} nodes need {needed} open files; the hard"
            f" limit (ulimit -Hn) is {allowed}: have it raised, or take fewer nodes"
        )


def _require_modules(plan: BlockPlan) -> None:
    """Raise MachineError if a module is not loaded: another program might run in its place."""
    if missing := program.modules_not_loaded(plan.modules, os.environ):
        loaded = ", ".join(program.loaded_modules(os.environ)) or "none"
        shell = "" if program.module_is_defined(os.environ) else f"; {_NO_MODULE}"
        raise MachineError(
            f"module {', '.join(missing)} is not loaded on {node_name()}; loaded: {loaded}{shell}"
        )


async def _start_agents(
    plan: BlockPlan, nodes: Allocation, address: str, secret: str, logs: Path
) -> asyncio.subprocess.Process:
    """Their launcher."""
    n_nodes = str(len(nodes.nodes))
    launcher = [word.replace("{n_nodes}", n_nodes) for word in plan.agent_launcher]
    command = [*launcher, *python_main("conductor.agent.agent")]
    environment = {
        wire.ADDRESS_VARIABLE: address,
        wire.SECRET_VARIABLE: secret,
        wire.LOGS_VARIABLE: str(logs),
    }
    if plan.interface and plan.origin_policy != "same_host":
        environment[wire.INTERFACE_VARIABLE] = plan.interface
    if plan.origin_policy in ("hetjob", "reservation"):
        environment |= allocation.tasks_of_agents(nodes)
    with (logs / "agents.log").open("ab") as log:
        return await processes.spawn(command, environment, plan.origin_cpus, log, log)


async def _gather(
    hub: Hub, nodes: Allocation, launcher: asyncio.subprocess.Process, log: Path
) -> None:
    """Wait for the agents. Raises MachineError, with their launcher's last lines, without them."""
    calls = asyncio.ensure_future(hub.gather(nodes.nodes, _AGENTS_TIMEOUT_S))
    end = asyncio.ensure_future(launcher.wait())
    try:
        await asyncio.wait([calls, end], return_when=asyncio.FIRST_COMPLETED)
        if not calls.done():
            raise MachineError("the agents' launcher ended before all agents had connected")
        await calls
    except MachineError as error:
        words = quoted(log.read_text(errors="replace")) or "no output"
        raise type(error)(f"{error}; {log}: {words}") from None
    finally:
        calls.cancel()
        end.cancel()


async def _warm_up(runner: BlockRunner, store: Store, rates: AloneRates) -> None:
    """Warm up, and once more at each new length, until the writers' rows fit into a run."""
    plan, earlier = runner.plan, noted(runner.logs.parent, length.FILE, length.Length)
    runner.doublings = max((block.doublings for block in earlier), default=0)
    least_s = length.LEAST_ROWS * runner.row_s
    left, pair = plan.warmups, -1
    while left:
        run = Run(plan.baseline, pair, 0, 0, warmup=True)
        run_s = (await _repeat(run, runner, store, rates)).elapsed_s
        left, pair = left - 1, pair - 1
        if not left and (more := length.doublings(run_s, least_s)):
            runner.doublings += more
            left = 1
            if runner.doublings > len(plan.baseline.longer):
                by = plan.lengthened_by
                least = f"{length.LEAST_ROWS} rows of the writers {least_s:.2g} s"
                advice = f"set {by} higher" if by else _TOO_SHORT
                raise BlockError(
                    "run_too_short", f"a run takes {run_s:.2g} s, and {least}; {advice}"
                )
    if runner.doublings:
        note(runner.logs, length.FILE, {"doublings": runner.doublings})


async def _repeat(run: Run, runner: BlockRunner, store: Store, rates: AloneRates) -> Sample:
    """Repeat the run until it is accepted, or until no retries are left; returns the last one.

    A rate alone that a run shows to have been disturbed is measured again.
    """
    for attempt in range(runner.plan.demand.retries + 1):
        which = run.treatment, run.pair, run.position, attempt, run.warmup
        sample, counters, outputs = await runner.measure(Run(*which))
        store.append(sample, counters, outputs)
        result = f"{sample.outcome}: {sample.reason}"
        if sample.outcome == "kept":
            unread = sample.fom is None
            result = "to be read by the check" if unread else f"{sample.fom:.6g} {sample.fom_unit}"
            result += f" in {sample.elapsed_s:.3f} s"
        print(f"{sample.key} {result}", flush=True)
        while runner.disturbed_alone:
            await rates.learn_anew(runner.disturbed_alone.pop())
        _give_up(runner.plan, runner.outcomes, sample)
        if sample.outcome == "kept":
            return sample
    if sample.outcome in _HOPELESS:
        raise BlockError(sample.outcome, f"{sample.key}: {sample.reason}")
    return sample


def _give_up(plan: BlockPlan, outcomes: list[str], sample: Sample) -> None:
    """Raise BlockError if all first runs of the block were rejected, of which this is the last."""
    outcomes.append(sample.outcome)
    # Of more than one run, each repeated.
    if len(outcomes) == max(_FIRST, 2 * (plan.demand.retries + 1)) and {*outcomes} == {"rejected"}:
        reason = sample.reason or "no reason given"
        what = next(advice for sign, advice in _ADVICE.items() if sign in reason)
        number = len(outcomes)
        raise BlockError(
            "all_rejected", f"{number} of {number} runs rejected, the last as {reason}; {what}"
        )


async def _watch_owner(pid: int) -> None:
    """Return when the owner is gone, which nothing shows but that the kernel does not know it."""
    born: int | None = None
    while True:
        with suppress(OSError):  # of this process, which says nothing of the owner
            now = processes.start_time(pid)
            if now is None or (born is not None and now != born):
                return
            born = now
        await asyncio.sleep(_OWNER_S)


async def _supervise(plan: BlockPlan, logs: Path, do: Work) -> tuple[int, str, str | None]:
    """Work until done, stopped by a signal, or orphaned. Returns exit status, state, reason."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(wire.in_one_line)
    work = asyncio.ensure_future(do(plan, logs))
    stopping = False

    def stop() -> None:
        """Only once: a second time would interrupt the clean-up."""
        nonlocal stopping
        if not stopping:
            stopping = True
            # On one host, ReFrame kills the job's group two seconds after it has asked it to end.
            with suppress(PermissionError):  # of the leader of a session
                os.setpgid(0, 0)
            work.cancel()

    for signum in STOPPING:
        loop.add_signal_handler(signum, stop)
    if plan.owner_pid:
        owner = asyncio.ensure_future(_watch_owner(plan.owner_pid))
        owner.add_done_callback(lambda _: stop())
    try:
        await work
    except asyncio.CancelledError:
        return 143, "cancelled", "stopped by a signal, or the owner process ended"
    except BlockError as error:
        return 1, error.outcome, str(error)
    except MachineError as error:
        outcome = error.outcome if isinstance(error, AgentGoneError) else "machine_failed"
        return 3, outcome, str(error)
    except OSError as error:
        return 3, "machine_failed", f"{error.filename or plan.nimc_dir}: {error.strerror or error}"
    return 0, "done", None


def main(plan: BlockPlan, do: Work) -> None:
    """Do the work of a block, such as `conduct`, and exit.

    Exit status: 0 done, 1 the block could not be finished, 3 the machine failed.
    """
    processes.become_subreaper()
    os.environ[BLOCK_VARIABLE] = secrets.token_hex(8)  # inherited by everything that it starts
    logs = Path(plan.nimc_dir) / "logs" / plan.case / str(plan.block)
    started_s = clock.now_s()
    try:
        code, state, reason = asyncio.run(_supervise(plan, logs, do))
    finally:
        processes.end_descendants()
    report = {
        "state": state,
        "reason": reason,
        "started_s": started_s,
        "finished_s": clock.now_s(),
        "pid": os.getpid(),
    }
    with suppress(OSError):
        replace_text(logs / "block.json", json.dumps(report, indent=1))
    if reason:
        print(f"block {plan.case}/{plan.block} {state}: {reason}", file=sys.stderr, flush=True)
    sys.exit(code)
