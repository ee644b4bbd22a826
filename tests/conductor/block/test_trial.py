"""A try of writes: writers are measured without an application. Figures are worked out by hand."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from conductor.block import trial
from conductor.block.runs import BlockError
from conductor.judge.series import Series
from conductor.readings import MeterRecord
from records.acceptance import AcceptanceLimits
from records.treatment import Treatment, Writes
from tests.conductor import made_series

WRITES = Writes(injector="perftest", message_b=1)
STEADY, STALLED = (100.0, 100.0, 100.0, 100.0), (100.0, 100.0, 0.0, 100.0)


class Rates:
    """A stand-in that measures rates alone. Each call of `learn` gives the next rows of a writer.

    If the next item is an error, it is raised.
    """

    def __init__(self, *rows_b_s: tuple[float, ...] | BlockError):
        self._next = iter(rows_b_s)
        self.measured_rates = {WRITES: SimpleNamespace(rates_b_s=[100.0], counted_b_s={})}
        self.series: dict[Writes, Series] = {}

    async def learn(self, writes):
        rows = next(self._next)
        if isinstance(rows, BlockError):
            raise rows
        self.series[writes] = Series(writers=[made_series.writer(made_series.rows(*rows))])

    measure_again = learn


def attempt(rates: Any) -> trial.Trial:
    treatment = Treatment(name="on", writes=WRITES)
    return asyncio.run(trial.try_writes(treatment, WRITES, rates, AcceptanceLimits()))


def test_a_try_that_was_disturbed_is_made_once_more():
    # A further try would raise this error. After a try that was not disturbed, none is made.
    after = BlockError("injector_never_ready", "no third try")
    tried = attempt(Rates(STALLED, STEADY, after))
    assert (tried.failure, tried.rejection) == (None, None)
    assert [record.rate_b_s for record in tried.writers] == [100.0]
    assert attempt(Rates(STEADY, after)).rejection is None


def test_the_reason_of_a_disturbance_in_every_try_is_reported():
    rejection = attempt(Rates(STALLED, STALLED)).rejection
    assert rejection is not None
    assert "at 0 % of its rate alone from second 1.0 of the window" in rejection


def test_writers_that_share_a_device_are_counted_once():
    """Two origins have a device each, which the writers of the first one share: 2 x 100 B/s."""
    rates: Any = Rates()
    rates.measured_rates[WRITES].rates_b_s = [100.0] * 3
    meter = MeterRecord(0, "sent by m0")
    writers = [
        made_series.writer(
            made_series.rows(*STEADY),
            fields={"origin": origin, "device": "m0"},
            samples=made_series.counted(*[rate_b_s] * 16),
            meter=meter,
        )
        for origin, rate_b_s in (("n8", 200.0), ("n8", 200.0), ("n9", 100.0))
    ]
    rates.series[WRITES] = Series(writers=writers)
    judged = trial.judged_trial("ucx", WRITES, rates, AcceptanceLimits())
    assert judged.sent_b_s == pytest.approx([200.0, 100.0])


@pytest.mark.parametrize("tries", [[], [STALLED]])
def test_a_writer_that_ends_fails_the_try(tries):
    ended = BlockError("injector_never_ready", "origin side ended: exit status 1")
    assert attempt(Rates(*tries, ended)).failure == str(ended)
