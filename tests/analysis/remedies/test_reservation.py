"""Tests price, gain and net effect of remedies, with runs whose ratios are worked out by hand."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.remedies import net
from analysis.remedies.advice import advise
from analysis.remedies.standing import Standing
from records.sample import Better, Sample
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.synthetic import Case, crossed, loaded_run, remedies, samples


def rows_of(folder: Path, runs: list[Sample], share: float = 1.0) -> list[net.Remedy]:
    return net.remedies(loaded_run(folder / "run", runs), share).to_dicts()


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_price_gain_and_net_by_hand(tmp_path: Path, better: Better) -> None:
    """A tool is no remedy, and runs with a tool are used only for its counts."""
    case = remedies(better, core="reserved_cores")
    rows = rows_of(tmp_path, samples(case, pairs=6), share=0.5)
    core, *others = sorted(rows, key=lambda row: (row["factor"] == "rate", row["traffic"]))
    assert [(row["remedy"], row["traffic"]) for row in others] == [
        ("reserved_cores=1", "on@rate=25%"),
        ("rate=25%", "on"),
    ]
    names = ("remedy", "reference", "traffic", "at", "paired")
    assert [core[name] for name in names] == ["reserved_cores=1", "0", "on", "", True]
    assert core["price"] == pytest.approx(1.1)
    assert core["gain"] == pytest.approx(2.0 / 1.21)
    (why,) = core["emulated"]
    assert why.startswith("writers went through shared memory on one host: emulation")
    # Speeds without and with traffic are 1 and 1/2; with the core, they are 1/1.1 and 1/1.21. There
    # is traffic during half of the time.
    assert core["net"] == pytest.approx((1 / 1.1 + 1 / 1.21) / (1 + 1 / 2))


def test_throttled_rates_have_no_price_and_delay_the_writes(tmp_path: Path) -> None:
    case = replace(sweep(noise=0.0), pair_noise=0.0)
    half = next(row for row in rows_of(tmp_path, swept(case, pairs=6)) if row["level"] == "50%")
    assert (half["price"], half["traffic"], half["reference"]) == (None, "on", "full")
    # The gain is (14 - 0.3 x 3.6) / (14 - 0.3 x 7.2).
    assert half["gain"] == pytest.approx(12.92 / 11.84)
    assert half["written"] == pytest.approx(0.5, rel=0.03)
    assert half["emulated"] == []


@pytest.mark.parametrize(
    ("plain", "times", "reference", "gains"),
    [
        # The reference is the level that names leave out, whatever its position. Gains are 1.5 /
        # 1.2 and 1.5 / 1.8.
        (
            {"writer_rail": "nic1"},
            {"on@writer_rail=nic0": 1.2, "on": 1.5, "on@writer_rail=nic2": 1.8},
            "nic1",
            {"nic0": 1.25, "nic2": 5 / 6},
        ),
        # The reference is the highest rate, even if this is not the full rate. The gain is
        # 1.65 / 1.5.
        ({}, {"on@rate=25%": 1.5, "on@rate=50%": 1.65}, "50%", {"25%": 1.1}),
        # Another factor of the writers is no remedy.
        ({"message": "4k"}, {"on": 1.5, "on@message=1M": 1.8}, None, {}),
    ],
)
def test_the_reference_of_a_level_of_the_writers(
    tmp_path: Path, plain: dict, times: dict, reference: str | None, gains: dict
) -> None:
    case = Case(
        name="melt", unit="s", better="lower", base=10.0, effects=times, noise=0.0, pair_noise=0.2
    )
    rows = rows_of(tmp_path, swept(crossed(case, {}, {"rate": "full", **plain}), pairs=6))
    assert {row["reference"] for row in rows} == ({reference} if gains else set())
    assert {row["level"]: row["gain"] for row in rows} == pytest.approx(gains)


def test_levels_in_separate_jobs_are_unpaired(tmp_path: Path) -> None:
    """Levels are compared by allocations, not by pairs.

    A core that Slurm reserves costs 10 %, and reduces the time under writes from 2 to 1.21. Level 0
    is the reference, although level 1 was measured first.
    """
    base = Case(
        name="stream@core_spec=0",
        unit="s",
        better="lower",
        base=10.0,
        effects={"on": 2.0, "aa": 1.0},
        noise=0.001,
        pair_noise=0.0,
        block_noise=0.0,
    )
    with_ = replace(base, name="stream@core_spec=1", base=11.0, effects={"on": 1.1, "aa": 1.0})
    runs = [*samples(with_, blocks=3, pairs=6, seed=2), *samples(base, blocks=3, pairs=6)]
    (row,) = rows_of(tmp_path / "three", runs)
    assert (row["reference"], row["level"]) == ("0", "1")
    assert (row["paired"], row["n"]) == (False, 3)
    assert row["price"] == pytest.approx(1.1, rel=0.005)
    assert row["gain"] == pytest.approx(2 / 1.21, rel=0.005)
    assert 0 < row["p"] < 0.001
    # By hand: the error of the net is s sqrt(1/3 + 1/3), that of the next allocation is
    # s sqrt(1/3 + 1/3 + 2), which is twice as much.
    width, next_width = (
        math.log(row[f"{figure}_high"] / row[f"{figure}_low"])
        for figure in ("net", "next_allocation")
    )
    assert next_width == pytest.approx(2 * width)
    # One allocation for each level gives no interval.
    (row,) = rows_of(tmp_path / "one", [*samples(base, pairs=6), *samples(with_, pairs=6)])
    assert (row["price"], row["gain"], row["net"], row["p"]) == (None, None, None, None)


@pytest.mark.parametrize("odd", [0, 1])
def test_both_sides_of_levels_in_different_jobs_must_be_sound(odd: int, tmp_path: Path) -> None:
    """One level has emulated writes, or a baseline that differs from its repetition."""
    base = Case(
        name="stream@core_spec=0",
        unit="s",
        better="lower",
        base=10.0,
        effects={"on": 2.0, "aa": 1.0},
        noise=0.001,
        pair_noise=0.001,
        transport="InfiniBand",
        origin="origin-0",
    )
    for name, changes in {
        "emulated": {"transport": "soft-RoCE"},
        "unstable": {"effects": {"on": 2.0, "aa": 1.3}},
        "sound": {},
    }.items():
        cases = [base, replace(base, name="stream@core_spec=1", base=5.0)]
        cases[odd] = replace(cases[odd], **changes)  # type: ignore[arg-type]
        runs = [sample for case in cases for sample in samples(case, blocks=3, pairs=6)]
        (row,) = advise([loaded_run(tmp_path / name, runs)]).remedies
        assert bool(row["emulated"]) == (name == "emulated")
        assert (row["standing"] is Standing.UNSTABLE) == (name == "unstable")
