from dataclasses import replace

import polars as pl
import pytest

from analysis.effects.verdict import (
    LEVELS,
    MEANING,
    Evidence,
    Shown,
    Verdict,
    caveats,
    emulated,
    judge,
    phrase,
    shown,
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
TYPICAL = {"typical_within"}
NONE = {"typical_within", "within"}


def _judge(
    effect: Estimate | None,
    seen: Shown | None,
    repeated: Estimate | None = REPEATED,
    mean: Estimate | None = None,
    **changes: bool | int,
) -> Verdict:
    usual = dict.fromkeys(("precise", "wrote"), True)
    usual |= dict.fromkeys(("controlled", "same_host", "emulated"), False)
    facts = {"pairs": 10, "pairs_floor": 10, **usual, **changes}
    return judge(effect, mean or effect, repeated, seen, **facts)  # type: ignore[arg-type]


def test_the_baseline_comes_first() -> None:
    assert _judge(None, None) == "too few pairs"
    assert _judge(SLOW, SLOWER, pairs=9) == "too few pairs"
    assert _judge(SLOW, SLOWER, None) == "baseline not repeated"
    assert _judge(SLOW, SLOWER, None, wrote=False) == "no writes"
    for seen in (SLOWER, FASTER, NONE, NOTHING):
        assert _judge(SLOW, {*seen, "unstable"}) == "baseline unstable"


@pytest.mark.parametrize(
    ("effect", "seen", "mean", "verdict"),
    [
        (SLOW, SLOWER, SLOW, "memory contention"),
        (SLOW, NOTHING, SLOW, "inconclusive"),  # the interval alone is not enough
        (_interval(1.01, 1.04), SLOWER, SLOW, "inconclusive"),  # its estimate is not above 1.03
        (_interval(0.999, 1.08), SLOWER, SLOW, "inconclusive"),
        (_interval(1.0, 1.08), SLOWER, SLOW, "inconclusive"),  # it holds 1
        (SLOW, SLOWER, FAST, "inconclusive"),  # the mean says otherwise
        (SAME, {*NONE, "mean_slower"}, SLOW, "sometimes slower"),
        (SLOW, {"slower", "mean_slower"}, SLOW, "memory contention"),
        (SLOW, {"mean_slower"}, SLOW, "inconclusive"),  # not only some runs
        (_interval(1.1, 1.14), {"mean_slower"}, SLOW, "sometimes slower"),  # 0.12 of 0.25
        (_interval(1.1, 1.16), {"mean_slower"}, SLOW, "inconclusive"),  # more than half of it
        (FAST, FASTER, FAST, "speed-up"),
        (FAST, FASTER, SAME, "inconclusive"),  # the mean is not shown to be lower
        (_interval(0.97, 0.99), FASTER, FAST, "inconclusive"),  # estimate not below 0.98
        (_interval(0.92, 1.0), FASTER, FAST, "inconclusive"),  # it holds 1, or the mean does
        (_interval(0.92, 1.02), FASTER, FAST, "inconclusive"),
        (FAST, FASTER, _interval(0.9, 1.0), "inconclusive"),
        (SAME, NONE, SAME, "no effect"),
        (SAME, TYPICAL, SAME, "no effect on the typical run"),
        (SAME, NOTHING, SAME, "inconclusive"),
    ],
)
def test_an_effect_or_none_is_shown_or_neither(
    effect: Estimate, seen: Shown, mean: Estimate, verdict: str
) -> None:
    assert _judge(effect, seen, mean=mean) == verdict


def test_precision_bars_only_no_effect() -> None:
    for seen in (NONE, TYPICAL):
        assert _judge(SAME, seen, precise=False) == "inconclusive"
    assert _judge(SLOW, SLOWER, precise=False) == "memory contention"
    assert _judge(FAST, FASTER, precise=False) == "speed-up"


@pytest.mark.parametrize(
    ("above_control", "same_host", "emulated", "verdict"),
    [
        (None, False, False, "memory contention"),
        (None, False, True, "slower under emulated writes"),
        (None, True, False, "control missing"),
        (None, True, True, "control missing"),
        (True, True, False, "memory contention"),
        (True, True, True, "slower under emulated writes"),
        (False, True, True, "not above the control"),
        (False, False, False, "not above the control"),
    ],
)
def test_what_slowed_it_down(
    above_control: bool | None, same_host: bool, emulated: bool, verdict: str
) -> None:
    seen = {"slower", "above_control"} if above_control else SLOWER
    facts = {"controlled": above_control is not None, "same_host": same_host, "emulated": emulated}
    assert _judge(SLOW, seen, **facts) == verdict


def test_every_verdict_has_a_meaning_and_the_margin_stands_in_the_phrase() -> None:
    assert set(MEANING) == set(Verdict)
    undecided, small = ["too few pairs", "inconclusive"], ["not above the control"]
    assert [verdict for verdict in Verdict if verdict.is_open] == undecided
    assert [verdict for verdict in Verdict if verdict.needs_pairs] == [*undecided, *small]
    baseline = ["baseline not repeated", "baseline unstable"]
    compared = ["too few pairs", "no writes", *baseline]
    assert [verdict for verdict in Verdict if verdict.is_not_compared] == compared
    assert phrase(Verdict.NO_EFFECT, 0.005) == "no effect: less than 0.5 %"
    assert phrase(Verdict.CONTENTION, 0.005) == "memory contention"
    says = [each for each in Verdict if phrase(each, 0.02, emulated=True) != phrase(each, 0.02)]
    assert says == ["speed-up", "no effect", "no effect on the typical run", "sometimes slower"]


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
    own = pl.DataFrame({"notes": [[], ["b"], ["a", "b"]], "transport": transports})
    assert emulated(own) == [Note.TCP(), Note.SOFT_ROCE()]
    samples = ["b", "a", Note.TCP(), Note.SOFT_ROCE()]
    three = [range(4)] * 3
    assert caveats(own, three, SLOW, None, 40) == samples
    for cap, most in ((None, ""), (40, " (at most 40)")):
        # Half of 0.1, of 1.25.
        width = Note.HALF_WIDTH(half_width=0.04, pairs=12, most=most, precision=0.03)
        assert caveats(own, three, SLOW, 0.03, cap) == [*samples, width]
    few = Note.NEXT_ALLOCATION(blocks=2, needed=3)
    assert caveats(own, three[:2], SLOW, 0.05, None) == [*samples, few]


def test_wrong_verdicts_of_all_kinds_add_up_to_five_percent() -> None:
    """The control's is not counted: it only takes back what 'slower' has said."""
    assert sum(LEVELS.values()) - LEVELS["above_control"] == pytest.approx(0.05)


def test_a_family_needs_more_than_one_of_it() -> None:
    """50 shows 'slower' of one effect; of two of which the other shows nothing, 100 does."""
    strong = Evidence(100.0, 0, 0, 0, 0, None, 1.0)
    weak = replace(strong, slower=0.0)

    def slower(asked: int, *family: Evidence) -> list[bool]:
        return ["slower" in each for each in shown(family, ["off"] * len(family), asked)]

    assert slower(1, strong) == [True]
    assert slower(2, strong) == [True]
    assert slower(3, strong) == [False]
    assert slower(2, strong, weak) == [True, False]
    assert slower(3, strong, strong, weak) == [True, True, False]


def test_baselines_are_a_family_of_their_own() -> None:
    """20 shows one unstable baseline of one, 40 of two; effects may share one."""
    sound, unstable = (Evidence(0, 0, 0, 0, 0, None, e) for e in (0.5, 20.0))

    def seen(family: list[Evidence], baselines: list[str], asked: int = 0) -> list[bool]:
        return ["unstable" in each for each in shown(family, baselines, 10, asked)]

    assert seen([unstable, unstable], ["a", "a"]) == [True, True]
    assert seen([unstable, sound], ["a", "b"]) == [False, False]
    assert seen([replace(unstable, unstable=40.0), sound], ["a", "b"]) == [True, False]
    # Those that are not measured yet count.
    assert seen([unstable], ["a"], 2) == [False]
    assert seen([replace(unstable, unstable=40.0)], ["a"], 2) == [True]
