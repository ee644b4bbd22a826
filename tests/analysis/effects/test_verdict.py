import polars as pl
import pytest

from analysis.effects.hypotheses import Shown
from analysis.effects.verdict import (
    SENTENCES,
    Verdict,
    caveats,
    emulated,
    judge,
    phrase,
    within,
)
from analysis.statistics.interval import Estimate
from records.notes import Note


def _interval(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high, 0.95)


REPEATED = _interval(0.98, 1.03)
SLOW, SAME, FAST = _interval(1.2, 1.3), _interval(0.99, 1.01), _interval(0.9, 0.95)
NOTHING: Shown = set()
SLOWER = {"slower"}
FASTER = {"faster"}
NONE = {"within"}


def _judge(
    effect: Estimate | None,
    shown: Shown,
    repeated: Estimate | None = REPEATED,
    mean: Estimate | None = None,
    **changes: bool | float,
) -> Verdict:
    usual = {"pairs": 10, "pairs_floor": 10, "margin": 0.02, "wrote": True}
    usual |= dict.fromkeys(("controlled", "same_host", "emulated"), False)
    return judge(effect, mean or effect, repeated, shown, **{**usual, **changes})  # type: ignore[arg-type]


def test_the_baseline_comes_first() -> None:
    assert _judge(None, NOTHING) == "too few pairs"
    assert _judge(SLOW, SLOWER, pairs=9) == "too few pairs"
    assert _judge(SLOW, SLOWER, None) == "baseline not repeated"
    assert _judge(SLOW, SLOWER, None, wrote=False) == "no writes"
    for shown in (SLOWER, FASTER, NONE, NOTHING):
        assert _judge(SLOW, {*shown, "unstable"}) == "baseline unstable"


@pytest.mark.parametrize(
    ("effect", "shown", "mean", "verdict"),
    [
        (SLOW, SLOWER, SLOW, "slower under RDMA writes"),
        (SLOW, NOTHING, SLOW, "inconclusive"),  # the interval alone is not enough
        (_interval(1.01, 1.04), SLOWER, SLOW, "inconclusive"),  # its estimate is not above 1.03
        (_interval(0.999, 1.08), SLOWER, SLOW, "inconclusive"),
        (_interval(1.0, 1.08), SLOWER, SLOW, "inconclusive"),  # it holds 1
        (SLOW, SLOWER, FAST, "inconclusive"),  # the mean says otherwise
        (FAST, FASTER, FAST, "speed-up"),
        (FAST, FASTER, SAME, "inconclusive"),  # the mean is not shown to be lower
        (_interval(0.97, 0.99), FASTER, FAST, "inconclusive"),  # estimate not below 0.98
        (_interval(0.92, 1.0), FASTER, FAST, "inconclusive"),  # it holds 1, or the mean does
        (_interval(0.92, 1.02), FASTER, FAST, "inconclusive"),
        (FAST, FASTER, _interval(0.9, 1.0), "inconclusive"),
        (SAME, NONE, SAME, "no effect"),
        (SAME, NONE, _interval(1.01, 1.3), "no effect"),  # hits are neither shown nor ruled out
        (SAME, NONE, _interval(1.03, 1.3), "inconclusive"),  # the mean is higher by the margin
        (SAME, NONE, _interval(0.9, 0.97), "inconclusive"),
        (SAME, NONE, _interval(0.9, 0.99), "no effect"),
        (SAME, NOTHING, SAME, "inconclusive"),
    ],
)
def test_an_effect_or_none_is_shown_or_neither(
    effect: Estimate, shown: Shown, mean: Estimate, verdict: str
) -> None:
    assert _judge(effect, shown, mean=mean) == verdict


def test_there_is_no_effect_only_beside_a_baseline_that_may_be_within_the_margin() -> None:
    ends = [(1.01, 1.05), (1.021, 1.05), (0.95, 0.99), (0.95, 0.98)]
    verdicts = [_judge(SAME, NONE, _interval(*pair)) for pair in ends]
    assert verdicts == ["no effect", "inconclusive", "no effect", "inconclusive"]


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
def test_what_slowed_it_down(
    above_control: bool | None, same_host: bool, emulated: bool, verdict: str
) -> None:
    shown = {"slower", "above_control"} if above_control else SLOWER
    facts = {"controlled": above_control is not None, "same_host": same_host, "emulated": emulated}
    assert _judge(SLOW, shown, **facts) == verdict


def test_every_verdict_has_a_meaning_and_the_margin_stands_in_the_phrase() -> None:
    assert set(SENTENCES) == set(Verdict)
    undecided, small = ["too few pairs", "inconclusive"], ["not above the control"]
    assert [verdict for verdict in Verdict if verdict.is_open] == undecided
    assert [verdict for verdict in Verdict if verdict.needs_pairs] == [*undecided, *small]
    baseline = ["baseline not repeated", "baseline unstable"]
    compared = ["too few pairs", "no writes", *baseline]
    assert [verdict for verdict in Verdict if verdict.is_not_compared] == compared
    losses = ["slower under emulated writes", "slower under a GPU's writes"]
    losses += ["slower under RDMA writes", "memory contention"]
    assert [verdict for verdict in Verdict if verdict.is_loss] == losses
    assert phrase(Verdict.NO_EFFECT, 0.005) == "no effect: typical run within 0.5 %"
    assert phrase(Verdict.CONTENTION, 0.005) == "memory contention"
    says = [
        verdict
        for verdict in Verdict
        if phrase(verdict, 0.02, emulated=True) != phrase(verdict, 0.02)
    ]
    assert says == ["speed-up", "no effect"]
    # 'Slower' is wrong in 4 % of campaigns at most, 'faster' in 1 %.
    sure = {verdict: SENTENCES[verdict].sure[:10] for verdict in ("memory contention", "speed-up")}
    assert sure == {"memory contention": "At most 4%", "speed-up": "At most 1%"}


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [(1 / 1.25, 1.25, True), (0.79, 1.0, False), (1.0, 1.26, False), (0.79, 1.26, False)],
)
def test_a_ratio_and_its_inverse_have_the_same_margin(
    low: float, high: float, inside: bool
) -> None:
    assert within(low, high, 0.25) is inside


def test_caveats_are_those_of_the_samples_of_the_width_and_of_the_allocations() -> None:
    transports = ["InfiniBand", "tcp+soft-RoCE", "tcp"]
    runs = pl.DataFrame({"notes": [[], ["b"], ["a", "b"]], "transport": transports})
    assert emulated(runs) == [Note.TCP(), Note.SOFT_ROCE()]
    samples = ["b", "a", Note.TCP(), Note.SOFT_ROCE()]
    three = [range(4)] * 3
    assert caveats(runs, three, SLOW, None, 40) == samples
    for cap, most in ((None, ""), (40, " (at most 40)")):
        # Half of 0.1, of 1.25.
        width = Note.HALF_WIDTH(half_width=0.04, pairs=12, most=most, precision=0.03)
        assert caveats(runs, three, SLOW, 0.03, cap) == [*samples, width]
    few = Note.NEXT_ALLOCATION(blocks=2, needed=3)
    assert caveats(runs, three[:2], SLOW, 0.05, None) == [*samples, few]
