"""Tests verdicts, which follow from estimates and from statements that p values show.

The right verdict of each row is worked out by hand.
"""

import polars as pl
import pytest

from analysis.effects.result import Verdict
from analysis.effects.statements import Statements
from analysis.effects.verdict import emulation_caveats, verdict_of
from analysis.statistics.interval import Estimate, Interval
from records.notes import Note
from tests.analysis.synthetic import result


def _interval(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high)


REPEATED = Interval(0.98, 1.03)
SLOW, SAME, FAST = _interval(1.2, 1.3), _interval(0.99, 1.01), _interval(0.9, 0.95)
SLOWER, FASTER, NONE = {"slower"}, {"faster"}, {"within"}


def _judge(
    effect: Estimate | None, shown: Statements, *, same_host: bool = False, **changes: object
) -> Verdict:
    row = {"slowdown": effect, "mean": effect, "noise_floor": REPEATED, "pairs": 10}
    row |= {"margin": 0.02, "writer_rate_b_s": 1e9, **changes}
    return verdict_of(result(**row), shown, 10, same_host=same_host)


def test_a_lack_of_pairs_writes_or_a_stable_baseline_decides_first() -> None:
    assert _judge(None, set()) == "too few pairs"
    assert _judge(SLOW, SLOWER, pairs=9) == "too few pairs"
    assert _judge(SLOW, SLOWER, noise_floor=None) == "baseline not repeated"
    assert _judge(SLOW, SLOWER, noise_floor=None, writer_rate_b_s=None) == "no writes"
    for shown in (SLOWER, FASTER, NONE, set[str]()):
        assert _judge(SLOW, {*shown, "unstable"}) == "baseline unstable"


@pytest.mark.parametrize(
    ("effect", "shown", "mean", "verdict"),
    [
        (SLOW, SLOWER, SLOW, "slower under RDMA writes"),
        (SLOW, set(), SLOW, "inconclusive"),  # an interval without the statement is not enough
        # The interval overlaps that of the repeated baseline `aa`.
        (_interval(1.01, 1.04), SLOWER, SLOW, "slower under RDMA writes"),
        (_interval(1.0, 1.08), SLOWER, SLOW, "inconclusive"),  # the interval contains 1
        (SLOW, SLOWER, FAST, "inconclusive"),  # the mean is lower
        (SLOW, SLOWER, _interval(0.9, 1.1), "inconclusive"),  # the centre of the mean is 1
        (FAST, FASTER, FAST, "speed-up"),
        (FAST, FASTER, SAME, "inconclusive"),  # the mean is not shown to be lower
        (_interval(0.97, 0.99), FASTER, FAST, "speed-up"),  # overlaps the interval of `aa`
        # The interval of the typical run or that of the mean contains 1.
        (_interval(0.92, 1.0), FASTER, FAST, "inconclusive"),
        (FAST, FASTER, _interval(0.9, 1.0), "inconclusive"),
        (SAME, NONE, SAME, "no effect"),
        # A higher mean by single slow runs is neither shown nor ruled out.
        (SAME, NONE, _interval(1.01, 1.3), "no effect"),
        (SAME, NONE, _interval(1.02, 1.3), "no effect"),
        (SAME, NONE, _interval(1.03, 1.3), "inconclusive"),  # the mean is higher by the margin
        (SAME, NONE, _interval(0.9, 0.97), "inconclusive"),
        (SAME, NONE, _interval(0.9, 0.99), "no effect"),
        (SAME, set(), SAME, "inconclusive"),
    ],
)
def test_verdicts_slower_speed_up_no_effect_and_inconclusive(
    effect: Estimate, shown: Statements, mean: Estimate, verdict: str
) -> None:
    assert _judge(effect, shown, mean=mean) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.01, 1.05, "no effect"),
        (1.021, 1.05, "inconclusive"),
        (0.95, 0.99, "no effect"),
        (0.95, 0.98, "inconclusive"),
    ],
)
def test_no_effect_needs_a_repeated_baseline_that_may_be_within_the_margin(
    low: float, high: float, verdict: str
) -> None:
    assert _judge(SAME, NONE, noise_floor=Interval(low, high)) == verdict


@pytest.mark.parametrize(
    ("above_control", "same_host", "emulated", "verdict"),
    [
        (None, False, False, "slower under RDMA writes"),
        (None, False, True, "slower under emulated writes"),
        (None, True, False, "control missing"),
        (None, True, True, "control missing"),
        (True, True, False, "slower under RDMA writes"),
        (True, True, True, "slower under emulated writes"),
        (False, True, True, "not above the control"),
        (False, False, False, "not above the control"),
    ],
)
def test_the_verdict_on_a_slower_run(
    above_control: bool | None, same_host: bool, emulated: bool, verdict: str
) -> None:
    shown = {"slower", "above_control"} if above_control else SLOWER
    control = None if above_control is None else SLOW
    row = {"over_control": control, "emulated": emulated}
    assert _judge(SLOW, shown, same_host=same_host, **row) == verdict


def test_properties_of_verdicts() -> None:
    undecided = ["too few pairs", "inconclusive"]
    assert [verdict for verdict in Verdict if verdict.is_undecided] == undecided
    needs_pairs = [*undecided, "not above the control"]
    assert [verdict for verdict in Verdict if verdict.needs_pairs] == needs_pairs
    without_statement = ["too few pairs", "no writes", "baseline not repeated", "baseline unstable"]
    assert [verdict for verdict in Verdict if verdict.allows_no_statement] == without_statement
    losses = ["slower under emulated writes"]
    losses += ["slower under RDMA writes", "memory contention"]
    assert [verdict for verdict in Verdict if verdict.is_loss] == losses


def test_each_emulated_transport_gets_one_caveat() -> None:
    transports = pl.Series(["InfiniBand", None, "tcp+soft-RoCE", "tcp"])
    assert emulation_caveats(transports) == [Note.TCP(), Note.SOFT_ROCE()]
