"""Tries the writes of a plan while no application runs: measures their rates, and judges them.

    python -m conductor.block.trial PLAN.json

`nimc doctor --in-job` starts this program on the first node of its job. It writes `trial.json` to
the logs of the block, with a record for each kind of writes in the plan.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from conductor.block import conductor
from conductor.block.agents import connected_hub
from conductor.block.allocation import Allocation, block_allocation
from conductor.block.alone_rates import AloneRates, MeasuredRates
from conductor.block.hub import Hub
from conductor.block.readers import Readers
from conductor.block.runs import BlockError, BlockRunner
from conductor.injectors import INJECTORS
from conductor.judge.judge import judge
from conductor.judge.rates import total_at
from conductor.judge.series import Series, WriterSeries
from records import clock
from records.acceptance import AcceptanceLimits
from records.block_plan import BlockPlan
from records.files import replace_text
from records.machine import devices
from records.sample import WriterRecord
from records.treatment import Treatment, Writes

#: Name of the file in the block's logs.
FILE = "trial.json"
#: Readers that read nothing, since no application runs.
_NO_READERS = Readers("", "lower", None, lambda _tool, _folder, _ranks: [])


@dataclass(frozen=True)
class Trial:
    """The result of one kind of writes."""

    #: Name of the treatment that has these writes.
    name: str
    #: Why nothing was written, in one line; None if the writers wrote.
    failure: str | None
    #: Why a run under these writes would be rejected, in one line; None if nothing speaks against
    #: it.
    rejection: str | None = None
    #: A record for each writer, as in a sample.
    writers: list[WriterRecord] = field(default_factory=list)
    #: Rate that each device of the origins counted, bytes per second; None if not counted.
    sent_b_s: list[float | None] = field(default_factory=list)


async def conduct(plan: BlockPlan) -> None:
    """Try all writes of a plan. Raises MachineError if agents cannot be started."""
    plan.logs.mkdir(parents=True, exist_ok=True)
    allocation = block_allocation(plan)
    async with connected_hub(plan, allocation) as hub:
        clock.require_close_clocks(allocation.targets[0], hub.clock_offsets_s)
        rates = AloneRates(writer_runner(plan, allocation, hub))
        trials = []
        for treatment, writes in treatments_tried(plan):
            trials.append(await try_writes(treatment, writes, rates, plan.limits))
            save(trials, plan.logs)  # after each trial, since the job may reach its time limit


def treatments_tried(plan: BlockPlan) -> list[tuple[Treatment, Writes]]:
    """Return the treatments whose writes are tried, with these writes, in the plan's order."""
    return [
        (treatment, treatment.writes)
        for treatment in plan.treatments
        if treatment.writes and _can_write(treatment.writes)
    ]


def writer_runner(plan: BlockPlan, allocation: Allocation, hub: Hub) -> BlockRunner:
    """Return a runner of writers without an application."""
    return BlockRunner(plan, allocation, hub, "", _NO_READERS)


def save(trials: Sequence[Trial], logs: Path) -> None:
    """Write the trials to their file."""
    replace_text(logs / FILE, json.dumps([asdict(trial) for trial in trials], indent=1))


def _can_write(writes: Writes) -> bool:
    """Return whether the injector can write over the fabric of its devices."""
    fabrics = map(devices.fabric, writes.devices)
    return not any(INJECTORS[writes.injector].why_not_over(fabric) for fabric in fabrics)


async def try_writes(
    treatment: Treatment, writes: Writes, rates: AloneRates, limits: AcceptanceLimits
) -> Trial:
    """Try one kind of writes; afterwards its writers are held (suspended), if possible.

    If a run under these writes would be rejected, the trial is repeated once, as a campaign would
    repeat the run.
    """
    try:
        await rates.learn(writes)
        trial = judged_trial(treatment.name, writes, rates, limits)
        if trial.rejection:
            await rates.measure_again(writes)
            trial = judged_trial(treatment.name, writes, rates, limits)
    except BlockError as error:
        return Trial(treatment.name, str(error))
    return trial


def judged_trial(name: str, writes: Writes, rates: AloneRates, limits: AcceptanceLimits) -> Trial:
    """Judge the last measurement of the writers without an application."""
    series = _with_rates_alone(rates.series[writes], rates.measured_rates[writes])
    # As in a run, the window begins at full speed: at the end of the first row.
    window_s = (
        max(writer.rows[0].end_s for writer in series.writers),
        min(writer.rows[-1].end_s for writer in series.writers),
    )
    judgement = judge(series, window_s, limits)
    # Writers that share a device have the same counts.
    by_device = {(writer.writer.origin, writer.writer.device): writer for writer in series.writers}
    return Trial(
        name=name,
        failure=None,
        rejection=next(iter(judgement.reasons), None),
        writers=judgement.writers,
        sent_b_s=[_sent_b_s(writer) for writer in by_device.values()],
    )


def _with_rates_alone(series: Series, alone: MeasuredRates) -> Series:
    """Return the series with the rates alone (uncontended), by which its writers are judged."""
    writers = [
        replace(
            writer,
            alone_b_s=rate_b_s,
            counted_alone_b_s=alone.counted_b_s.get(writer.writer.target),
        )
        for writer, rate_b_s in zip(series.writers, alone.rates_b_s, strict=True)
    ]
    return replace(series, writers=writers, alone_b_s=sum(alone.rates_b_s))


def _sent_b_s(writer: WriterSeries) -> float | None:
    """Return the rate that the origin's device counted during the writer's rows, or None."""
    if writer.meter.in_memory or not writer.meter.source or not writer.samples:
        return None
    first, last = writer.samples[0], writer.samples[-1]
    start_s, end_s = max(writer.rows[0].end_s, first.at_s), last.at_s
    before_b = total_at(writer.samples, start_s)
    if before_b is None or end_s <= start_s:
        return None
    return (last.total - before_b) / (end_s - start_s)


def read(logs: Path) -> Sequence[Trial]:
    """Return the trials in the file. Raises OSError if there is no file."""
    from pydantic import TypeAdapter  # nodes only write the file, which does not need pydantic

    trials: Sequence[Trial] = TypeAdapter(list[Trial]).validate_json((logs / FILE).read_bytes())
    return trials


def main() -> None:
    """Try the writes of a plan, and exit with the status of `conductor.block.conductor.main`."""
    plan = BlockPlan.load(Path(sys.argv[1]))
    conductor.main(plan, partial(conduct, plan))


if __name__ == "__main__":
    main()
