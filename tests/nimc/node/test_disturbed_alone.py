"""A rate alone that a run shows to have been disturbed is measured anew before the next run."""

import asyncio
from dataclasses import dataclass, field, replace

from nimc.node.conductor import Store, _repeat
from nimc.node.runs import MeasuredRun, Run
from nimc.records.plan import Demand
from nimc.records.treatment import Start, Treatment, Writes
from tests.nimc.node.test_store import SAMPLE
from tests.nimc.node.test_timetable import PLAN

WRITES = Writes("ucx", 1 << 20)
ON = Treatment("on", Start(["a"]), WRITES, "effect", "off")


@dataclass
class Runner:
    """Stands in for a `BlockRunner`: a writer that now reaches 100 B/s."""

    alone: dict[Writes, list[float]]
    disturbed_alone: set[Writes] = field(default_factory=set)

    async def measure(self, run: Run) -> MeasuredRun:
        far_above = 1.25 * self.alone[WRITES][0] < 100
        if far_above:
            self.disturbed_alone.add(WRITES)
        outcome = "rejected" if far_above else "kept"
        sample = replace(SAMPLE, arm="on", outcome=outcome, attempt=run.attempt, reason="x")
        return MeasuredRun(sample, [], [])


def repeated(tmp_path, alone_b_s, anew_b_s, retries=2):
    """Attempts with their outcomes, and how often the rate alone was measured."""
    runner, measured = Runner({WRITES: [alone_b_s]}), []

    class Rates:
        """Stands in for `AloneRates`."""

        async def learn_anew(self, writes):
            runner.alone[writes] = [anew_b_s]
            measured.append(writes)

    plan = replace(PLAN, demand=Demand(retries=retries))
    last = asyncio.run(_repeat(plan, runner, Store(tmp_path, "stream"), Run(ON, 0, 0, 0), Rates()))
    return (last.attempt, last.outcome), measured


def test_a_disturbed_rate_alone_is_measured_anew(tmp_path):
    assert repeated(tmp_path, 65.0, 98.0) == ((1, "kept"), [WRITES])


def test_a_sound_one_is_kept(tmp_path):
    assert repeated(tmp_path, 98.0, 0.0) == ((0, "kept"), [])


def test_it_is_measured_as_often_as_it_is_disturbed_and_after_the_last_attempt_too(tmp_path):
    assert repeated(tmp_path, 65.0, 60.0) == ((2, "rejected"), [WRITES] * 3)
