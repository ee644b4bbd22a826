"""A try of writes without an application; rates and windows are by hand."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from conductor.block import trial
from conductor.block.runs import BlockError
from conductor.judge.series import Series
from records.acceptance import AcceptanceLimits
from records.treatment import Treatment, Writes
from tests.conductor import made_series

WRITES = Writes(injector="perftest", message_b=1)
STEADY, STALLED = (100.0, 100.0, 100.0, 100.0), (100.0, 100.0, 0.0, 100.0)


class Rates:
    """The rates alone of a writer: each time that they are learned, the next rows."""

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
    # The next try would fail: none is made after one that was not disturbed.
    after = BlockError("injector_never_ready", "no third try")
    tried = attempt(Rates(STALLED, STEADY, after))
    assert (tried.failure, tried.rejection) == (None, None)
    assert [record.rate_b_s for record in tried.writers] == [100.0]
    assert attempt(Rates(STEADY, after)).rejection is None


def test_what_disturbs_every_try_is_said():
    rejection = attempt(Rates(STALLED, STALLED)).rejection
    assert rejection is not None
    assert "at 0 % of its rate alone from second 1.0 of the window" in rejection


@pytest.mark.parametrize("tries", [[], [STALLED]])
def test_a_writer_that_ends_fails_the_try(tries):
    ended = BlockError("injector_never_ready", "origin side ended: exit status 1")
    assert attempt(Rates(*tries, ended)).failure == str(ended)
