"""Lines that commands print: which figures they show, in which unit, and what they leave out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest

from analysis.compare.sides import compare_sides
from analysis.effects.contrasts import Contrast
from analysis.effects.result import Result, Verdict
from analysis.statistics.interval import Estimate, Interval
from nimc.cli import plan, results
from nimc.cli.answer import Listing
from records.notes import Note
from tests.analysis.synthetic import STREAM, commands, header, loaded_run, samples


def about(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high)


# `nimc report`: effects, prices, notes and rejections.

EFFECT = Result(
    case="stream",
    workload="stream",
    arm="on",
    pairs=12,
    rejected=0,
    off_median=26.2e9,
    on_median=16.4e9,
    unit="B/s",
    slowdown=about(1.6, 1.5, 1.7),
    noise_floor=Interval(0.99, 1.01),
    control=Interval(1.0, 1.02),
    writer_rate_alone_b_s=3e9,
    writer_rate_b_s=2e9,
    verdict=Verdict.EMULATED,
    rejections=[],
    notes=[],
    role="effect",
    baseline="off",
    better="higher",
    emulated=True,
    mean=about(1.62, 1.51, 1.73),
    off_spread=0.02,
)
VERDICT = "slower under emulated writes"


def effects_of(rows: Sequence[Result]) -> Listing:
    """Return the table of effects of a run without prices (costs of a level of a factor)."""
    (listing,) = results.results_tables(rows, header(), commands())
    assert isinstance(listing, Listing)
    return listing


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, f"stream | 1.60 [1.50, 1.70] | {VERDICT} | 26.2 -> 16.4 GB/s | 12 pairs"),
        (
            {"arm": "daly", "rejected": 2, "pairs": 1, "slowdown": None},
            f"stream daly | - | {VERDICT} | 26.2 -> 16.4 GB/s | 1 pair, 2 rejected",
        ),
        (
            {"verdict": Verdict.NO_EFFECT, "off_median": None, "on_median": 3.1, "unit": "s"},
            "stream | 1.60 [1.50, 1.70] | no effect, emulated | - -> 3.10 s | 12 pairs",
        ),
        (
            {"off_median": None, "on_median": 4164028046.0},
            f"stream | 1.60 [1.50, 1.70] | {VERDICT} | - -> 4.16 GB/s | 12 pairs",
        ),
        (
            {"verdict": Verdict.CONTENTION, "emulated": False, "on_median": None},
            "stream | 1.60 [1.50, 1.70] | memory contention | 26.2 -> - GB/s | 12 pairs",
        ),
    ],
)
def test_line_and_details_of_an_effect(changes, line):
    listing = effects_of([replace(EFFECT, **changes)])
    (effect_line,) = listing.lines
    assert " | ".join(effect_line.cells) == line
    assert list(effect_line.details) == [
        "standard deviation of runs: 2.0 % -> -",
        "baseline repeated: 0.990-1.010; control: 1.000-1.020",
        "extra node-hours per 100, on average: 62.0 [51.0, 73.0]",
        "writers: 2.00 GB/s, alone 3.00 GB/s",
    ]


def test_rows_of_controls_are_shown_only_for_cases_without_an_effect():
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
    failed = results.results_tables([], header(), commands(), failures=["a: exit 4", "b: exit 5"])
    assert list(map(click.unstyle, map(str, failed))) == [
        "no result: a: exit 4",
        "no result: b: exit 5",
    ]
    price = Contrast(
        case="lammps",
        factor="cores",
        level=1,
        reference=0,
        at={},
        kind="price",
        treatment="off@cores=1",
        against="off",
        pairs=6,
        ratio=about(1.02, 1.01, 1.03),
        noise_floor=Interval(0.99, 1.01),
        unit="s",
    )
    effects, prices = shown(EFFECT, contrasts=(price,)).split("\n\ncase, level ")
    line = "lammps off@cores=1  1.020 [1.010, 1.030]  price against off  6 pairs"
    assert prices.splitlines()[1] == line
    assert (effects.count("Next"), prices.count("Next")) == (0, shown(EFFECT).count("Next"))
    *_, listing = results.results_tables([EFFECT], header(), commands(), [price])
    (printed,) = listing.lines
    assert list(printed.details) == ["baseline repeated: 0.990-1.010"]


def test_a_figure_that_only_one_side_has_is_in_its_own_unit(tmp_path: Path) -> None:
    runs = [
        loaded_run(tmp_path / name, samples(STREAM, pairs=6, seed=1), header(run=name))
        for name in ("reference", "this")
    ]
    compared = compare_sides(runs[:1], runs[1:])
    (row,) = (row for row in compared.rows if row.metric == "off")
    row = replace(row, unit="B/s", reference=None, this=about(4164028046.0, 4e9, 5e9))
    *_, listing = results.comparison_parts(replace(compared, rows=[row]))
    assert isinstance(listing, Listing)
    assert listing.lines[0].cells[3] == "- -> 4.16 GB/s"


def test_notes_and_rejections_come_once_and_name_their_cases():
    def lost(number: int, reason: str) -> dict[str, str]:
        return {"key": f"k{number}", "outcome": "rejected", "reason": reason}

    first = replace(EFFECT, notes=["both", "one"], rejections=[lost(1, "stall"), lost(2, "stall")])
    second = replace(first, case="lammps", notes=["both"], rejections=[])
    rows = [first, replace(first, arm="full"), replace(second, rejections=[lost(1, "")])]
    assert effects_of(rows).notes == [
        "both",
        "stream: one",
        "stream: 2 x rejected: stall",
        "lammps: 1 x rejected",
    ]
    for more, last in ((8, "stream: 1 x rejected: h"), (9, "and 1 more reasons; ")):
        many = replace(first, rejections=[lost(n, "abcdefghi"[n]) for n in range(more)])
        _, _, *lines = effects_of([many]).notes
        assert (len(lines), lines[-1].startswith(last)) == (more, True)


@pytest.mark.parametrize(
    ("off", "on", "better", "slowdown", "disagree"),
    [
        (2.0, 2.2, "lower", (1.1, 1.05, 1.15), False),
        (22e9, 20e9, "higher", (1.1, 1.05, 1.15), False),  # the ratio of times is 1.1
        (20e9, 22e9, "higher", (1.1, 1.05, 1.15), True),
        # The ratio of medians is beyond the interval, or on the other side of 1.
        (2.0, 2.4, "lower", (1.1, 1.05, 1.15), True),
        (2.0, 1.96, "lower", (1.02, 0.9, 1.1), True),
        (3.85, 3.87, "lower", (0.92, 0.71, 1.21), True),
        (2.0, 1.996, "lower", (1.02, 0.9, 1.1), False),  # both medians are printed as 2.00
        (2.0, 1.99, "lower", (1.002, 0.9, 1.1), False),
        (None, 2.4, "lower", (1.1, 1.05, 1.15), False),
    ],
)
def test_a_note_says_that_slowdown_and_medians_disagree(off, on, better, slowdown, disagree):
    row = replace(EFFECT, off_median=off, on_median=on, better=better, slowdown=about(*slowdown))
    notes = effects_of([row, replace(row, case="lammps", slowdown=None)]).notes
    named = [note.partition(":")[0] for note in notes if "disagree" in note]
    assert named == (["stream"] if disagree else [])


def test_concurrent_runs_are_named_in_one_note_for_all_cases():
    """Each block has a note with the runs that ran when it began. These notes are combined."""
    beside = {"stream": ["a, b", "b, c"], "lammps": ["d", "a, b"], "hpccg": []}
    rows = [
        replace(EFFECT, case=case, notes=[Note.CONCURRENT_RUN(run=names) for names in lists])
        for case, lists in beside.items()
    ]
    expected = Note.CONCURRENT_RUN(run="a, b, c and 1 more")
    assert effects_of(rows).notes == [f"stream, lammps: {expected}"]


# `nimc plan`: commands that a shell reads.


def test_a_printed_command_keeps_options_beside_their_values_and_its_variable():
    words = ["reframe", "-C", "a b", "--prefix=$RUN/logs", "-S", "x" * 60, "-r"]
    assert plan.command_to_paste(words).replace(" \\\n  ", "|") == (
        f"reframe -C 'a b' \"--prefix=$RUN/logs\"|-S {'x' * 60} -r"
    )
    assert [plan.range_text("1", most) for most in ("1", "2")] == ["1", "1 to 2"]
