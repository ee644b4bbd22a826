"""A trial of writes: what writers of each kind reach in an allocation where no application runs.

    python -m conductor.block.trial PLAN.json

`nimc doctor --in-job` starts it on the first node of its job. It writes `trial.json` to the logs of
the block: a record for each kind of writes of the plan.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from conductor.block import allocation, conductor
from conductor.block.agents import connected
from conductor.block.allocation import Allocation
from conductor.block.alone import Alone, AloneRates
from conductor.block.hub import Hub
from conductor.block.readers import Readers
from conductor.block.runs import BlockError, BlockRunner
from conductor.injectors import INJECTORS
from conductor.judge.judge import judge
from conductor.judge.rates import passed_at
from conductor.judge.series import Series, WriterSeries
from records import clock
from records.acceptance import AcceptanceLimits
from records.block_plan import BlockPlan
from records.files import replace_text
from records.machine import devices
from records.sample import WriterRecord
from records.treatment import Treatment, Writes

#: The file in the block's logs.
FILE = "trial.json"
_NOTHING_READ = Readers("", "lower", None, lambda *_: [])


@dataclass(frozen=True)
class Trial:
    """The outcome of one kind of writes."""

    #: Name of the treatment that has them.
    name: str
    #: Why nothing was written; or else, why a run under these writes would be rejected. One line.
    failure: str | None
    rejection: str | None = None
    #: One for each writer, as in a sample.
    writers: list[WriterRecord] = field(default_factory=list)
    #: Rates that the origins' devices counted of each writer, bytes per second; None: no count.
    sent_b_s: list[float | None] = field(default_factory=list)


async def conduct(plan: BlockPlan) -> None:
    """Try all writes of a plan. Raises MachineError if agents cannot be started."""
    plan.logs.mkdir(parents=True, exist_ok=True)
    nodes = allocation.resolve(plan)
    async with connected(plan, nodes) as hub:
        clock.require_near(nodes.targets[0], hub.clock_offsets_s)
        rates = AloneRates(runner_of(plan, nodes, hub))
        trials = []
        for treatment, writes in tried(plan):
            trials.append(await attempt(treatment, writes, rates, plan.limits))
            save(trials, plan.logs)  # after each, since the job's time may end


def tried(plan: BlockPlan) -> list[tuple[Treatment, Writes]]:
    """Return the treatments that are tried, in their order, with their writes."""
    return [
        (treatment, treatment.writes)
        for treatment in plan.treatments
        if treatment.writes and _can_write(treatment.writes)
    ]


def runner_of(plan: BlockPlan, nodes: Allocation, hub: Hub) -> BlockRunner:
    """A runner of writers without an application."""
    return BlockRunner(plan, nodes, hub, "", _NOTHING_READ)


def save(trials: Sequence[Trial], logs: Path) -> None:
    """Write what came of them."""
    replace_text(logs / FILE, json.dumps([asdict(trial) for trial in trials], indent=1))


def _can_write(writes: Writes) -> bool:
    """Return whether the injector can write over the fabric of its devices."""
    over = map(devices.fabric, writes.devices)
    return not any(INJECTORS[writes.injector].missing_for(fabric) for fabric in over)


async def attempt(
    treatment: Treatment, writes: Writes, rates: AloneRates, limits: AcceptanceLimits
) -> Trial:
    """Try one kind of writes; its writers are held then, if they can be.

    A try that would reject a run is made once more, as a campaign repeats such a run.
    """
    try:
        await rates.learn(writes)
        trial = outcome(treatment.name, writes, rates, limits)
        if trial.rejection:
            await rates.learn_anew(writes)
            trial = outcome(treatment.name, writes, rates, limits)
    except BlockError as error:
        return Trial(treatment.name, str(error))
    return trial


def outcome(name: str, writes: Writes, rates: AloneRates, limits: AcceptanceLimits) -> Trial:
    """Return what the series that was recorded last shows."""
    series = _against(rates.measured[writes], rates.series[writes])
    # The window is as of a run: from the end of the first row, at speed, to the last row.
    window_s = (
        max(writer.rows[0].end_s for writer in series.writers),
        min(writer.rows[-1].end_s for writer in series.writers),
    )
    judgement = judge(series, window_s, limits)
    return Trial(
        name=name,
        failure=None,
        rejection=next(iter(judgement.reasons), None),
        writers=judgement.writers,
        sent_b_s=[_sent_b_s(writer) for writer in series.writers],
    )


def _against(alone: Alone, series: Series) -> Series:
    """The series, whose writers are measured against the rates that were found."""
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
    """Return what the origin's device counted while the writer reported rows, or None."""
    if writer.meter.memory or not writer.meter.at or not writer.samples:
        return None
    first, last = writer.samples[0], writer.samples[-1]
    start_s, end_s = max(writer.rows[0].end_s, first.at_s), last.at_s
    before_b = passed_at(writer.samples, start_s)
    return (
        None
        if before_b is None or end_s <= start_s
        else (last.total - before_b) / (end_s - start_s)
    )


def read(logs: Path) -> Sequence[Trial]:
    """Return what a trial wrote. Raises OSError without such a file."""
    from pydantic import TypeAdapter  # nodes only write

    trials: Sequence[Trial] = TypeAdapter(list[Trial]).validate_json((logs / FILE).read_bytes())
    return trials


def main() -> None:
    """Entry point; the exit status is as that of `conductor.block.conductor.main`."""
    plan = BlockPlan.load(Path(sys.argv[1]))
    conductor.main(plan, partial(conduct, plan))


if __name__ == "__main__":
    main()
