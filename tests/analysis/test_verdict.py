from __future__ import annotations

import pytest

from analysis.statistics.interval import Estimate
from analysis.verdict import Verdict, judge


def _interval(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high, 0.95)


FLOOR = _interval(0.98, 1.03)
CONTROL = _interval(1.05, 1.10)
Case = tuple[Estimate | None, Estimate | None, Estimate | None, bool, Verdict]


@pytest.mark.parametrize(
    ("effect", "floor", "control", "same_host", "verdict"),
    [
        (None, FLOOR, CONTROL, True, "too few pairs"),
        (_interval(1.2, 1.9), FLOOR, CONTROL, True, "inconclusive"),
        (_interval(1.2, 1.3), None, CONTROL, True, "noise floor missing"),
        (_interval(1.2, 1.3), FLOOR, None, True, "control missing"),
        (_interval(1.2, 1.3), FLOOR, None, False, "memory contention"),
        (_interval(1.2, 1.3), FLOOR, CONTROL, True, "memory contention"),
        (_interval(1.10, 1.2), FLOOR, CONTROL, True, "not above the control"),
        (_interval(1.04, 1.06), FLOOR, CONTROL, False, "not above the control"),
        (_interval(1.03, 1.06), FLOOR, CONTROL, True, "inconclusive"),  # its median is above
        (_interval(0.99, 1.07), FLOOR, CONTROL, True, "no effect above the noise floor"),
        (_interval(0.99, 1.05), FLOOR, None, True, "no effect above the noise floor"),
        (_interval(0.93, 0.97), FLOOR, None, True, "speed-up"),
        (_interval(0.93, 0.98), FLOOR, None, True, "inconclusive"),
        (_interval(0.97, 1.0), FLOOR, None, True, "no effect above the noise floor"),
        # A noise floor off 1 makes neither a slowdown of what reaches 1 nor a speed-up above it.
        (
            _interval(0.99, 1.01),
            _interval(0.9, 0.95),
            None,
            False,
            "no effect above the noise floor",
        ),
        (
            _interval(1.01, 1.02),
            _interval(1.05, 1.1),
            None,
            False,
            "no effect above the noise floor",
        ),
    ],
)
def test_verdicts(
    effect: Estimate | None,
    floor: Estimate | None,
    control: Estimate | None,
    same_host: bool,
    verdict: Verdict,
) -> None:
    found = judge(
        effect,
        floor,
        control,
        pairs=10,
        pairs_floor=6,
        precision=0.1,
        same_host=same_host,
    )
    assert found == verdict


def test_fewer_pairs_than_asked_for_are_too_few() -> None:
    effect = _interval(1.2, 1.3)
    found = judge(effect, FLOOR, None, pairs=9, pairs_floor=10, precision=None, same_host=False)
    assert found == "too few pairs"
