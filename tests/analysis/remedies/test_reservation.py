"""Price, gain and net of remedies from runs whose ratios follow by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.remedies.advice import advise
from analysis.remedies.effect import RemedyEffect, net
from analysis.remedies.standing import Standing
from analysis.remedies.tried import remedy_effects
from analysis.report.data import load_run
from records.sample import Better, Sample
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.synthetic import Case, crossed, samples, write_run

#: Time / time of `off`: a reserved core costs 10 %, and takes the loss from 2 to 1.21 times; each
#: with a tool as well, which is none.
TIMES = {
    "on": 2.0,
    "aa": 1.0,
    "off@reserved_cores=1": 1.1,
    "on@reserved_cores=1": 1.21,
    "aa@reserved_cores=1": 1.1,
    "off@tool=p": 1.05,
    "on@tool=p": 2.1,
    "off@reserved_cores=1,tool=p": 1.155,
    "on@reserved_cores=1,tool=p": 1.32,
}


def cores(better: Better = "lower") -> Case:
    """A case of these treatments; nothing but the pair varies."""
    unit = "s" if better == "lower" else "1/s"
    case = Case("melt", unit, better, 10.0, TIMES, noise=0.0, pair_noise=0.2)
    return crossed(case, {"reserved_cores": 0, "tool": "none"})


def found_of(folder: Path, found: list[Sample]) -> list[RemedyEffect]:
    return remedy_effects(load_run(write_run(folder / "run", found)))


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_price_gain_and_net_by_hand(tmp_path: Path, better: Better) -> None:
    (core,) = found_of(tmp_path, samples(cores(better), pairs=6))
    assert (core.remedy, core.reference, core.traffic) == ("reserved_cores=1", 0, "on")
    assert core.at == {}
    assert core.price.value == pytest.approx(1.1)
    assert core.gain.value == pytest.approx(2.0 / 1.21)
    assert core.paired
    assert core.emulated == ["writers went through shared memory on one host: emulation, not RDMA"
                             " hardware"]  # fmt: skip
    # Speeds 1 and 1/2 without, 1/1.1 and 1/1.21 with it, half of the time each.
    half = net(core, 0.5)
    assert half.ratio.value == pytest.approx((1 / 1.1 + 1 / 1.21) / (1 + 1 / 2))


def test_throttled_rates_have_no_price_and_delay_the_writes(tmp_path: Path) -> None:
    case = replace(sweep(noise=0.0), pair_noise=0.0)
    found = {each.remedy: each for each in found_of(tmp_path, swept(case, pairs=6)) if not each.at}
    half = found["rate=50%"]
    assert (half.price, half.traffic, half.reference) == (None, "on", "full")
    # (14 - 0.3 x 3.6) / (14 - 0.3 x 7.2)
    assert half.gain.value == pytest.approx(12.92 / 11.84)
    assert half.written.value == pytest.approx(0.5, rel=0.03)
    assert half.emulated == []


@pytest.mark.parametrize(
    ("plain", "times", "reference", "found"),
    [
        # The level that names leave out, wherever it stands; 1.5 / 1.2 and 1.5 / 1.8.
        (
            {"writer_rail": "nic1"},
            {"on@writer_rail=nic0": 1.2, "on": 1.5, "on@writer_rail=nic2": 1.8},
            "nic1",
            {"nic0": 1.25, "nic2": 5 / 6},
        ),
        # The highest rate, also if it is not the full one; 1.65 / 1.5.
        ({}, {"on@rate=25%": 1.5, "on@rate=50%": 1.65}, "50%", {"25%": 1.1}),
        # Another factor of the writers is no remedy.
        ({"message": "4k"}, {"on": 1.5, "on@message=1M": 1.8}, None, {}),
    ],
)
def test_what_a_level_of_the_writers_is_compared_with(
    tmp_path: Path, plain: dict, times: dict, reference: str | None, found: dict
) -> None:
    case = Case("melt", "s", "lower", 10.0, times, noise=0.0, pair_noise=0.2)
    rows = found_of(tmp_path, swept(crossed(case, {}, {"rate": "full", **plain}), pairs=6))
    assert {row.reference for row in rows} == ({reference} if found else set())
    assert {row.level: row.gain.value for row in rows} == pytest.approx(found)


def test_levels_in_jobs_of_their_own_are_unpaired(tmp_path: Path) -> None:
    """Allocation by allocation; a level that Slurm sets aside costs 10 % and takes 2 to 1.21."""
    base = Case("stream@core_spec=0", "s", "lower", 10.0, {"on": 2.0, "aa": 1.0}, 0.001, 0.0, 0.0)
    with_ = replace(base, name="stream@core_spec=1", base=11.0, effects={"on": 1.1, "aa": 1.0})
    made = [*samples(base, blocks=3, pairs=6), *samples(with_, blocks=3, pairs=6, seed=2)]
    (found,) = found_of(tmp_path / "three", made)
    assert {found.reference, found.level} == {"0", "1"}
    ahead = found.reference == "0"
    assert (found.paired, found.pairs) == (False, 3)
    assert found.price.value == pytest.approx(1.1 if ahead else 1 / 1.1, rel=0.005)
    assert found.gain.value == pytest.approx((2 / 1.21) ** (1 if ahead else -1), rel=0.005)
    # One allocation a side gives no interval.
    (found,) = found_of(tmp_path / "one", [*samples(base, pairs=6), *samples(with_, pairs=6)])
    assert (found.price, found.gain, net(found, 1.0)) == (None, None, None)


@pytest.mark.parametrize("odd", [0, 1])
def test_both_sides_of_levels_in_different_jobs_must_be_sound(odd: int, tmp_path: Path) -> None:
    """One level with emulated writes, or with a baseline that differs from its repetition."""
    base = Case(
        *("stream@core_spec=0", "s", "lower", 10.0, {"on": 2.0, "aa": 1.0}, 0.001, 0.001),
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
        made = [each for case in cases for each in samples(case, blocks=3, pairs=6)]
        (row,) = advise([load_run(write_run(tmp_path / name, made))]).remedies
        assert bool(row.effect.emulated) == (name == "emulated")
        assert (row.standing is Standing.UNSTABLE) == (name == "unstable")
