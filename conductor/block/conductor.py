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
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from conductor import wire
from conductor.agent.agent import node_name
from conductor.block import allocation
from conductor.block.agents import connected
from conductor.block.alone import AloneRates
from conductor.block.application import Run
from conductor.block.hub import AgentGoneError
from conductor.block.readers import Readers
from conductor.block.runs import BlockError, BlockRunner
from conductor.block.store import Store, note, noted
from conductor.judge import length
from records import clock, processes
from records.block_plan import UNREAD, BlockPlan
from records.errors import MachineError
from records.files import replace_text
from records.interrupts import STOPPING
from records.machine import program
from records.machine.cpu_load import BLOCK_VARIABLE
from records.sample import Sample

_TOO_SHORT = "this check cannot be lengthened: set a larger problem"
#: How often the owner process is checked, seconds.
OWNER_S = 0.5
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
#: Words in the reason of a rejected run -> what to do. The first words that the reason has decide.
ADVICE = {
    "foreign processes": "wait until they end, or raise the limit foreign_cpus",
    "hypervisor": "take a host of your own, or raise the limit steal_share",
    "although nothing wrote": "wait until that traffic ends, or raise the limit foreign_share",
    "the rate alone was disturbed": (
        "the rate alone has been measured again; end what else runs on the nodes"
    ),
    "of its rate alone": "leave the writers a core, or lower the limit min_share",
    "": "docs/reliability.md has what each reason means",
}


#: The work in an allocation.
Work = Callable[[], Coroutine[Any, Any, None]]


async def conduct(plan: BlockPlan, readers: Readers) -> None:
    """Run the whole block; raises BlockError if it cannot be finished."""
    plan.logs.mkdir(parents=True, exist_ok=True)
    # Runs whose output the check itself reads become samples only once it has read them.
    samples = plan.logs / UNREAD if readers.fom is None else None
    store = Store(Path(plan.nimc_dir), plan.case, samples)
    nodes = allocation.resolve(plan)
    program.require_modules(plan.modules, os.environ, node_name())
    application = program.application(plan.program, plan.folder)
    programs = program.detect_versions()
    async with connected(plan, nodes) as hub:
        clock.require_near(nodes.targets[0], hub.clock_offsets_s)
        provenance = store.keep_provenance(
            {
                **plan.provenance,
                "programs": programs,
                "program": application,
                "modules": program.loaded_modules(os.environ),
                "nodes": hub.facts,
                "clock_offsets_s": hub.clock_offsets_s,
            }
        )
        runner = BlockRunner(plan, nodes, hub, provenance, readers)
        rates = AloneRates(runner)
        for treatment in plan.treatments:
            if treatment.writes:
                await rates.learn(treatment.writes)
        earlier = store.pairs_made()
        await warm_up(runner, store, rates)
        for pair in range(plan.pairs):
            for position, treatment in enumerate(plan.order(earlier + pair)):
                await repeat_until_accepted(
                    Run(treatment=treatment, pair=pair, position=position, attempt=0),
                    runner,
                    store,
                    rates,
                )


async def warm_up(runner: BlockRunner, store: Store, rates: AloneRates) -> None:
    """Warm up, and once more at each new length, until the writers' rows fit into a run.

    Raises BlockError if the check's runs cannot be made so long.
    """
    plan = runner.plan
    earlier = noted(plan.logs.parent, length.FILE, length.Lengthening)
    runner.doublings = max((block.doublings for block in earlier), default=0)
    least_s = length.LEAST_ROWS * runner.row_s
    left, pair = plan.warmups, -1
    while left:
        run = Run(treatment=plan.baseline, pair=pair, position=0, attempt=0, warmup=True)
        run_s = (await repeat_until_accepted(run, runner, store, rates)).elapsed_s
        left, pair = left - 1, pair - 1
        if not left and (more := length.doublings_needed(run_s, least_s)):
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
        note(plan.logs, length.FILE, {"doublings": runner.doublings})


async def repeat_until_accepted(
    run: Run, runner: BlockRunner, store: Store, rates: AloneRates
) -> Sample:
    """Repeat the run until it is accepted, or until no retries are left; returns the last one.

    A rate alone that a run shows to have been disturbed is measured again. Raises BlockError if
    repeating a failure did not help, or if all first runs of the block were rejected.
    """
    for attempt in range(runner.plan.limits.retries + 1):
        again = Run(
            treatment=run.treatment,
            pair=run.pair,
            position=run.position,
            attempt=attempt,
            warmup=run.warmup,
        )
        sample, counters, outputs = await runner.measure(again)
        store.append(sample, counters, outputs)
        result = f"{sample.outcome}: {sample.reason}"
        if sample.outcome == "accepted":
            unread = sample.fom is None
            result = "to be read by the check" if unread else f"{sample.fom:.6g} {sample.fom_unit}"
            result += f" in {sample.elapsed_s:.3f} s"
        print(f"{sample.key} {result}", flush=True)
        while runner.disturbed_alone:
            await rates.learn_anew(runner.disturbed_alone.pop())
        stop_if_all_rejected(runner.plan, runner.outcomes, sample)
        if sample.outcome == "accepted":
            return sample
    if sample.outcome in _HOPELESS:
        raise BlockError(sample.outcome, f"{sample.key}: {sample.reason}")
    return sample


def stop_if_all_rejected(plan: BlockPlan, outcomes: list[str], sample: Sample) -> None:
    """Raise BlockError if this run is the last of the block's first runs, and all were rejected.

    `outcomes` has the outcomes of the earlier runs; that of this run is appended.
    """
    outcomes.append(sample.outcome)
    # Of more than one run, each repeated.
    if len(outcomes) == max(_FIRST, 2 * (plan.limits.retries + 1)) and {*outcomes} == {"rejected"}:
        reason = sample.reason or "no reason given"
        advice = next(text for sign, text in ADVICE.items() if sign in reason)
        number = len(outcomes)
        raise BlockError(
            "all_rejected", f"{number} of {number} runs rejected, the last as {reason}; {advice}"
        )


async def watch_owner(pid: int) -> None:
    """Return when the process `pid` is gone, or another one has its number.

    Nothing shows that but the kernel, which does not know the process any more.
    """
    born: int | None = None
    while True:
        with suppress(OSError):  # of this process, which says nothing of the owner
            now = processes.start_time(pid)
            if now is None or (born is not None and now != born):
                return
            born = now
        await asyncio.sleep(OWNER_S)


async def _supervise(plan: BlockPlan, do: Work) -> tuple[int, str, str | None]:
    """Work until done, stopped by a signal, or orphaned. Returns exit status, state, reason."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(wire.in_one_line)
    work = asyncio.ensure_future(do())
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
        owner = asyncio.ensure_future(watch_owner(plan.owner_pid))
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
    started_s = clock.now_s()
    try:
        code, state, reason = asyncio.run(_supervise(plan, do))
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
        replace_text(plan.logs / "block.json", json.dumps(report, indent=1))
    if reason:
        print(f"block {plan.case}/{plan.block} {state}: {reason}", file=sys.stderr, flush=True)
    sys.exit(code)
