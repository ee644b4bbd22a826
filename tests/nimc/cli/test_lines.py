"""What commands print of their records: which figures, in which unit, and what is left out."""

from dataclasses import replace

import click
import pytest

from analysis.effects.contrasts import Contrast
from analysis.effects.result import Result, Verdict
from analysis.statistics.interval import Estimate, Interval
from nimc.cli import plan, results
from tests.analysis.synthetic import commands, header


def about(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high)


# `nimc report`: effects, prices, notes and rejections.

EFFECT = Result(
    *("stream", "stream", "on", 12, 0, 26.2e9, 16.4e9, "B/s", about(1.6, 1.5, 1.7)),
    *(Interval(0.99, 1.01), Interval(1.0, 1.02), 3e9, 2e9, Verdict.EMULATED, [], []),
    **{"role": "effect", "baseline": "off", "better": "higher", "emulated": True},
    mean=about(1.62, 1.51, 1.73),
    off_spread=0.02,
)
SAID = "slower under emulated writes"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, f"stream | 1.60 [1.50, 1.70] | {SAID} | 26.2 -> 16.4 GB/s | 12 pairs"),
        (
            {"arm": "daly", "rejected": 2, "pairs": 1, "slowdown": None},
            f"stream daly | - | {SAID} | 26.2 -> 16.4 GB/s | 1 pair, 2 rejected",
        ),
        (
            {"verdict": Verdict.NO_EFFECT, "off_median": None, "on_median": 3.1, "unit": "s"},
            "stream | 1.60 [1.50, 1.70] | no effect, emulated | - -> 3.10 s | 12 pairs",
        ),
        (
            {"verdict": Verdict.CONTENTION, "emulated": False, "on_median": None},
            "stream | 1.60 [1.50, 1.70] | memory contention | 26.2 -> - GB/s | 12 pairs",
        ),
    ],
)
def test_an_effect(changes, line):
    shown = results._effect(replace(EFFECT, **changes))
    assert " | ".join(shown.parts) == line
    assert list(shown.details) == [
        "standard deviation of runs: 2.0 % -> -",
        "baseline repeated: 0.990-1.010; control: 1.000-1.020",
        "extra node-hours per 100, on average: 62.0 [51.0, 73.0]",
        "writers: 2.00 GB/s, alone 3.00 GB/s",
    ]


def test_rows_of_controls_are_shown_only_without_an_effect():
    control = replace(EFFECT, arm="spin", role="control", emulated=False, verdict=Verdict.CONTROL)
    alone, bounded = replace(control, case="lammps"), replace(EFFECT, verdict=Verdict.NO_EFFECT)

    def shown(*rows: Result, contrasts: tuple[Contrast, ...] = ()) -> str:
        parts = results.results_tables(rows, header(), commands(), contrasts)
        return click.unstyle("\n".join(map(str, parts)))

    text = shown(bounded, control, alone)
    assert text.splitlines()[1].startswith("stream ")
    assert "\nlammps spin " in text
    assert "stream spin" not in text
    assert "no effect: typical run within 2 %" in text
    assert "within" not in shown(EFFECT)
    assert shown() == "no result: only the arm 'off' was run"
    price = Contrast(
        *("lammps", "cores", 1, 0, {}, "price", "off@cores=1", "off", 6),
        *(about(1.02, 1.01, 1.03), Interval(0.99, 1.01), "s"),
    )
    effects, prices = shown(EFFECT, contrasts=(price,)).split("\n\ncase, level ")
    line = "lammps off@cores=1  1.020 [1.010, 1.030]  price against off  6 pairs"
    assert prices.splitlines()[1] == line
    assert (effects.count("Next"), prices.count("Next")) == (0, shown(EFFECT).count("Next"))
    assert list(results._price(price).details) == ["baseline repeated: 0.990-1.010"]


def test_notes_and_rejections_come_once_and_name_their_cases():
    def lost(number: int, reason: str) -> dict[str, str]:
        return {"key": f"k{number}", "outcome": "rejected", "reason": reason}

    first = replace(EFFECT, notes=["both", "one"], rejections=[lost(1, "stall"), lost(2, "stall")])
    second = replace(first, case="lammps", notes=["both"], rejections=[])
    assert results._notes([first, replace(first, arm="full"), second]) == ["both", "stream: one"]
    rows = [first, replace(first, arm="full"), replace(second, rejections=[lost(1, "")])]
    assert results._rejections(rows) == ["stream: 2 x rejected: stall", "lammps: 1 x rejected"]
    for more, last in ((8, "stream: 1 x rejected: h"), (9, "and 1 more reasons; ")):
        many = replace(first, rejections=[lost(n, "abcdefghi"[n]) for n in range(more)])
        found = results._rejections([many])
        assert (len(found), found[-1].startswith(last)) == (more, True)


# `nimc plan`: commands that a shell reads.


def test_a_command_keeps_options_with_their_values_and_its_variable():
    words = ["reframe", "-C", "a b", "--prefix=$RUN/logs", "-S", "x" * 60, "-r"]
    assert plan._shell(words).replace(" \\\n  ", "|") == (
        f"reframe -C 'a b' \"--prefix=$RUN/logs\"|-S {'x' * 60} -r"
    )
    assert [plan._range("1", most) for most in ("1", "2")] == ["1", "1 to 2"]
