"""What commands print of their records: which figures, in which unit, and what is left out."""

import re
from dataclasses import replace
from typing import Any

import click
import pytest

from analysis.effects.contrasts import Contrast
from analysis.effects.estimate import Result
from analysis.effects.verdict import Verdict
from analysis.history.alarms import WatchedSeries
from analysis.statistics.interval import Estimate, Interval
from analysis.subjects.traffic import AtOnce, Pattern, Traffic
from analysis.subjects.writers import concurrent_writers
from nimc.campaign.cases import Scale
from nimc.cli import nights, plan, results, simulate
from records.errors import InputError
from records.text import Line
from records.traffic.trace import Break, TraceHeader


def about(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 0.95)


def figures(text: str) -> list[float]:
    """All numbers in a text."""
    return [float(each) for each in re.findall(r"\d+(?:\.\d+)?", text)]


# `nimc report`: effects, prices, notes and rejections.

EFFECT = Result(
    *("stream", "stream", "on", 12, 0, 26.2e9, 16.4e9, "B/s", about(1.6, 1.5, 1.7)),
    *(Interval(0.99, 1.01), Interval(1.0, 1.02), 3e9, 2e9, Verdict.EMULATED, [], []),
    **{"role": "effect", "baseline": "off", "better": "higher", "emulated": True},
    mean=about(1.62, 1.51, 1.73),
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
            "stream | 1.60 [1.50, 1.70] | memory contention | 26.2 -> 16.4 GB/s | 12 pairs",
        ),
    ],
)
def test_an_effect(changes: dict[str, Any], line: str) -> None:
    found = results._effect(replace(EFFECT, **changes))
    assert " | ".join(found.parts) == line
    assert found.ratio == (None if "slowdown" in changes else (1.6, 1.5, 1.7))
    assert list(found.details) == [
        "baseline repeated: 0.990-1.010; control: 1.000-1.020",
        "extra node-hours per 100: 62.0 [51.0, 73.0]; writers: 2.00 GB/s, alone 3.00 GB/s",
    ]


def test_rows_of_controls_are_shown_only_without_an_effect() -> None:
    control = replace(EFFECT, arm="spin", role="control", emulated=False, verdict=Verdict.CONTROL)
    alone, bounded = replace(control, case="lammps"), replace(EFFECT, verdict=Verdict.NO_EFFECT)

    def shown(*rows: Result, contrasts: tuple[Contrast, ...] = ()) -> str:
        parts = results.results_tables(rows, "quick", "far", 8, contrasts)
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


def test_notes_and_rejections_come_once_and_name_their_cases() -> None:
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


SWEEP = {
    **{"case": "stream", "at": "reserved cores 0", "bandwidth": False, "reserved": None},
    **{"slope": 2e-11, "slope_low": 1e-11, "slope_high": 3e-11, "word": "yes"},
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slope": None}, []),
        # 2e-11 for each byte per second is 2 % for each GB/s.
        ({}, ["stream, reserved cores 0: lost per byte written 2.00 [1.00, 3.00] % per GB/s"]),
        ({"word": "no"}, ["stream, reserved cores 0: the loss is curved, so no line gives a"
                                " loss per byte"]),
    ],
)  # fmt: skip
def test_the_loss_per_byte_of_a_sweep(changes: dict[str, Any], said: list[str]) -> None:
    assert results._sweep(SWEEP | changes) == said


# `nimc nights alarms`: what is watched.

WATCH = WatchedSeries(
    *("hpc", "nightly", "stream", "off", "fom", "s", "2026-01-31", 31),
    **{"level": 12.5, "spread": 0.0123, "detectable": 0.045},
)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, ["finds 4.5%", "spread 1.2%", "12.5 s", "31 nights", "nightly"]),
        ({"unit": "1"}, ["finds 4.5%", "spread 1.2%", "12.5", "31 nights", "nightly"]),
        ({"level": None}, ["too few nights", "", "", "31 nights", "nightly"]),
    ],
)
def test_a_watched_series(changes: dict[str, Any], parts: list[str]) -> None:
    assert nights._watched(replace(WATCH, **changes)) == Line(["hpc stream off fom", *parts])


# `nimc simulate`: writers.


@pytest.mark.parametrize("text", ["-1%", "101%", "nan%"])
def test_a_share_that_is_none(text: str) -> None:
    with pytest.raises(InputError, match=f"^--writers: '{text}' is not a share"):
        simulate._writers(text, 10)


def test_figures_of_traffic() -> None:
    """Of 22 nodes the 20 busiest are shown, after the whole machine."""
    node = Pattern("n0", 99, 9e9, 2e8, 4e9, 0.125, 7, 3.0, 5.0, 6.0, 20.0, 30.0, 1.6e9)
    breaks = [Break(kind, "n0", "", 1.0, 3.0) for kind in ("gap", "gap", "reset")]
    found = Traffic(
        *(TraceHeader(2, [], 2.5, breaks), 0, 99, 4e8, replace(node, node="all")),
        *(AtOnce(99, 1.25, 1.0, 3.0, 4), None, [node] * 22),
    )
    first, second, third, _, header, *rows, foot = simulate._traffic_text(found).splitlines()
    assert figures(first) == [400, 2.5]
    assert figures(second) == [2, 1]
    assert figures(third) == [1, 95, 3, 4, 1.25, 22]
    assert header.split()[:4] == ["node", "duty", "mean", "peak"]
    assert [row.split()[0] for row in rows] == ["all", *["n0"] * 20]
    assert re.split("  +", rows[1]) == [
        *("n0", "12.5 %", "200 MB/s", "4.00 GB/s", "7", "3.00 s", "20.0 s", "1.60 GB/s"),
    ]
    assert figures(foot) == [2]
    daly = concurrent_writers(512, 157_788_000.0, 3.0)
    few = replace(found, daly=daly, nodes=[node] * 20, at_once=AtOnce(0, None, None, None, None))
    lines = simulate._traffic_text(few).splitlines()
    assert figures(lines[2]) == []
    assert figures(lines[3]) == [pytest.approx(daly.concurrent_writers_exact, rel=0.01), 3]
    assert figures(lines[-1]) == []


# `nimc plan`: scales, and commands that a shell reads.

SCALE = Scale("melt@4", "daly", 4, 1, 8192, 157_788_000.0, 42, 1.0, 41.96, 4e9, 16.8e12, 0.25)


def test_a_scale() -> None:
    assert plan._scale(SCALE) == [
        *("melt@4", "daly", "42 of 8192", "42", "4.00 GB", "16.8 TB", "25%"),
    ]
    unknown = replace(SCALE, counted=None, write_b=None, run_b=None, link_share=None)
    assert plan._scale(unknown) == ["melt@4", "daly", "42", "42", *["-"] * 3]


def test_a_command_keeps_options_with_their_values_and_its_variable() -> None:
    words = ["reframe", "-C", "a b", "--prefix=$RUN/logs", "-S", "x" * 60, "-r"]
    assert plan._shell(words).replace(" \\\n  ", "|") == (
        f"reframe -C 'a b' \"--prefix=$RUN/logs\"|-S {'x' * 60} -r"
    )
    assert [plan._range("1", most) for most in ("1", "2")] == ["1", "1 to 2"]
