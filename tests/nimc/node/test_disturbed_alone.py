"""A rate alone that a run shows to have been disturbed is measured anew before the next run."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

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


@pytest.mark.parametrize(
    ("alone_b_s", "anew_b_s", "last", "measured"),
    [
        (65.0, 98.0, (1, "kept"), 1),
        (98.0, 0.0, (0, "kept"), 0),
        (65.0, 60.0, (2, "rejected"), 3),  # after the last attempt, too
    ],
)
def test_a_disturbed_rate_alone_is_measured_as_often_as_it_is_disturbed(
    tmp_path, alone_b_s, anew_b_s, last, measured
):
    assert repeated(tmp_path, alone_b_s, anew_b_s) == (last, [WRITES] * measured)
