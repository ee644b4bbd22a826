"""The conductor: runs the pairs of one block inside the allocation, on its first node.

For each run it starts or resumes the writers, waits until they are at speed, starts the
application, watches both, holds the writers, and appends the sample. At the end it writes the state
of the block to `block.json` in the block's logs, and ends all processes that the block has started.

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
from dataclasses import replace
from pathlib import Path
from typing import Any

from conductor import wire
from conductor.agent.agent import node_name
from conductor.block.agents import AGENTS_LOG, connected_hub
from conductor.block.allocation import block_allocation
from conductor.block.alone_rates import AloneRates
from conductor.block.application import Run
from conductor.block.hub import AgentGoneError
from conductor.block.readers import Readers
from conductor.block.runs import BlockError, BlockRunner
from conductor.block.store import Store, read_notes, write_note
from conductor.judge import length
from records import clock, processes
from records.block_plan import UNREAD_FILE, BlockPlan
from records.errors import MachineError
from records.files import replace_text
from records.interrupts import STOP_SIGNALS
from records.machine import program
from records.machine.cpu_load import BLOCK_VARIABLE
from records.sample import Sample

#: Advice if runs are too short and the check has no variable that lengthens them.
_LARGER_PROBLEM = "this check cannot be lengthened: set a larger problem"
#: Outcome of a block whose job somebody starts again: both would write the same files, and add
#: duplicate samples. The block's own outcome stays.
_STARTED_AGAIN = "started_again"
#: Time between two checks of the owner process, seconds.
OWNER_INTERVAL_S = 0.5
#: Outcomes of the last repetition of a run that end the block.
_FATAL_OUTCOMES = {
    "injector_never_ready",
    "injector_died",
    "application_failed",
    "application_hung",
    "no_fom",
}
#: A block ends if all of its first runs are rejected, since later runs would be rejected as well.
#: This is the minimum number of these first runs.
_LEAST_FIRST_RUNS = 8
#: Words in the reason for a rejection -> what to do. The first entry whose words occur is used.
ADVICE = {
    "foreign processes": "wait until they end, or raise the limit foreign_cpus",
    "hypervisor": "take a host of your own, or raise the limit steal_share",
    "although nothing wrote": "wait until that traffic ends, or raise the limit foreign_share",
    "the rate alone was disturbed": (
        "the rate alone has been measured again; end what else runs on the nodes"
    ),
    "of its rate alone": "leave the writers a core, or lower the limit min_share",
    "": "docs/method.md#what-counts and docs/injectors.md#how-writes-are-proven explain reasons",
}
#: The work to do in an allocation.
Work = Callable[[], Coroutine[Any, Any, None]]


async def conduct(plan: BlockPlan, readers: Readers) -> None:
    """Run the whole block. Raises BlockError or MachineError if it cannot be finished."""
    plan.logs.mkdir(parents=True, exist_ok=True)
    try:
        (plan.logs / AGENTS_LOG).touch(exist_ok=False)
    except FileExistsError:
        raise BlockError(
            _STARTED_AGAIN, "nothing was run, since the block was started before"
        ) from None
    # If the check itself reads the outputs, runs become samples only after the block.
    samples = plan.logs / UNREAD_FILE if readers.fom is None else None
    store = Store(Path(plan.nimc_dir), plan.case, samples)
    allocation = block_allocation(plan)
    program.require_modules(plan.modules, os.environ, node_name())
    application = program.application_facts(plan.program, plan.folder)
    programs = program.detect_versions()
    async with connected_hub(plan, allocation) as hub:
        clock.require_close_clocks(allocation.targets[0], hub.clock_offsets_s)
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
        runner = BlockRunner(plan, allocation, hub, provenance, readers)
        rates = AloneRates(runner)
        for treatment in plan.treatments:
            if treatment.writes:
                await rates.learn(treatment.writes)
        earlier_pairs = store.count_pairs()
        await warm_up(runner, store, rates)
        for pair in range(plan.pairs):
            for position, treatment in enumerate(plan.order(earlier_pairs + pair)):
                sample = await repeat_until_accepted(
                    Run(treatment=treatment, pair=pair, position=position, attempt=0),
                    runner,
                    store,
                    rates,
                )
                if not plan.warmups and (pair, position) == (0, 0):
                    require_length(
                        sample, runner, "make a warm-up run, in which runs are lengthened"
                    )


async def warm_up(runner: BlockRunner, store: Store, rates: AloneRates) -> None:
    """Make the warm-up runs, and double the length of runs until enough rows of writers fit in.

    Each new length gets a warm-up run of its own. Raises BlockError if the check's runs cannot be
    made long enough.
    """
    plan = runner.plan
    earlier_blocks = read_notes(plan.logs.parent, length.FILE, length.Lengthening)
    runner.doublings = max((block.doublings for block in earlier_blocks), default=0)
    shortest_s, _ = runner.shortest_run()
    warmups_left = plan.warmups
    pair = -1  # the pairs that count are numbered from 0
    while warmups_left:
        run = Run(treatment=plan.baseline, pair=pair, position=0, attempt=0, warmup=True)
        sample = await repeat_until_accepted(run, runner, store, rates)
        warmups_left -= 1
        pair -= 1
        if warmups_left:
            continue
        doublings = length.doublings_needed(sample.elapsed_s, shortest_s)
        if not doublings:
            break
        runner.doublings += doublings
        warmups_left = 1
        if runner.doublings > len(plan.baseline.longer):
            variable = plan.lengthened_by
            require_length(
                sample, runner, f"set {variable} higher" if variable else _LARGER_PROBLEM
            )
    if runner.doublings:
        write_note(plan.logs, length.FILE, {"doublings": runner.doublings})


def require_length(sample: Sample, runner: BlockRunner, advice: str) -> None:
    """Raise BlockError, with this advice, if a run is shorter than enough rows of the writers."""
    shortest_s, need = runner.shortest_run()
    if sample.elapsed_s < shortest_s:
        raise BlockError(
            "run_too_short", f"a run takes {sample.elapsed_s:.2g} s, but {need}; {advice}"
        )


async def repeat_until_accepted(
    run: Run, runner: BlockRunner, store: Store, rates: AloneRates
) -> Sample:
    """Repeat a run until it is accepted or no retries are left; return its last sample.

    If a run shows that a rate alone was disturbed, that rate is measured again. Raises BlockError
    if the last repetition failed, or if all first runs of the block were rejected.
    """
    for attempt in range(runner.plan.limits.retries + 1):
        sample, counters, outputs = await runner.measure(replace(run, attempt=attempt))
        store.append(sample, counters, outputs)
        result = f"{sample.outcome}: {sample.reason}"
        if sample.outcome == "accepted":
            result = "to be read by the check"
            if sample.fom is not None:
                result = f"{sample.fom:.6g} {sample.fom_unit}"
            result += f" in {sample.elapsed_s:.3f} s"
        print(f"{sample.key} {result}", flush=True)
        while runner.writes_to_remeasure:
            await rates.measure_again(runner.writes_to_remeasure.pop())
        runner.outcomes.append(sample.outcome)
        stop_if_all_rejected(runner.plan, runner.outcomes, sample.reason)
        if sample.outcome == "accepted":
            return sample
    if sample.outcome in _FATAL_OUTCOMES:
        raise BlockError(sample.outcome, f"{sample.key}: {sample.reason}")
    return sample


def stop_if_all_rejected(plan: BlockPlan, outcomes: list[str], reason: str | None) -> None:
    """Raise BlockError if the last run completes the block's first runs, and all were rejected.

    `outcomes` has the outcome of each run of the block so far. `reason` is the reason for the last
    outcome.
    """
    # At least two runs with all their repetitions.
    n_first_runs = max(_LEAST_FIRST_RUNS, 2 * (plan.limits.retries + 1))
    if len(outcomes) == n_first_runs and set(outcomes) == {"rejected"}:
        reason = reason or "no reason given"
        advice = next(remedy for words, remedy in ADVICE.items() if words in reason)
        raise BlockError(
            "all_rejected",
            f"all {n_first_runs} runs were rejected, the last one: {reason}; {advice}",
        )


async def watch_owner(pid: int) -> None:
    """Return when the process `pid` has ended, or another process has its id.

    The kernel announces only the end of child processes, so the owner is checked regularly.
    """
    owner_start: int | None = None
    while True:
        with suppress(OSError):  # such as too many open files, which says nothing about the owner
            start = processes.start_ticks(pid)
            if start is None or (owner_start is not None and start != owner_start):
                return
            owner_start = start
        await asyncio.sleep(OWNER_INTERVAL_S)


async def _supervise(plan: BlockPlan, work: Work) -> tuple[int, str, str | None]:
    """Do the work until it is done, a signal stops it, or its owner process ends.

    Returns the exit status, the state of the block, and the reason for it.
    """
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(wire.print_in_one_line)
    task = asyncio.ensure_future(work())
    stopping = False

    def stop() -> None:
        """Cancel the work, but only once: a second cancellation would interrupt the clean-up."""
        nonlocal stopping
        if not stopping:
            stopping = True
            # On one host, ReFrame kills the job's process group two seconds after it has asked the
            # job to end. In a group of its own, this process has time to clean up.
            with suppress(PermissionError):  # the leader of a session already has its own group
                os.setpgid(0, 0)
            task.cancel()

    for signum in STOP_SIGNALS:
        loop.add_signal_handler(signum, stop)
    if plan.owner_pid:
        owner = asyncio.ensure_future(watch_owner(plan.owner_pid))
        owner.add_done_callback(lambda _: stop())
    try:
        await task
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


def main(plan: BlockPlan, work: Work) -> None:
    """Do the work of a block, such as `conduct`, and exit.

    Exit status: 0 done, 1 the block could not be finished, 3 the machine failed, 143 stopped.
    """
    processes.become_subreaper()
    os.environ[BLOCK_VARIABLE] = secrets.token_hex(8)  # all child processes inherit it
    started_s = clock.now_s()
    try:
        code, state, reason = asyncio.run(_supervise(plan, work))
    finally:
        processes.end_descendants()
    report = {
        "state": state,
        "reason": reason,
        "started_s": started_s,
        "finished_s": clock.now_s(),
        "pid": os.getpid(),
    }
    if state != _STARTED_AGAIN:
        with suppress(OSError):
            replace_text(plan.logs / "block.json", json.dumps(report, indent=1))
    if reason:
        print(f"block {plan.case}/{plan.block} {state}: {reason}", file=sys.stderr, flush=True)
    sys.exit(code)
