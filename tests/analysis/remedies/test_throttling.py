"""Loss per byte written and its crossover with a reserved core, on sweeps whose truth is known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.remedies.throttling import Throttling, crossover, curvatures, slopes, throttling
from analysis.report.data import RunData, load_run
from analysis.statistics.location import centres, location
from records.sample import Sample
from studies.noises import NOISES
from tests.analysis.remedies.sweeps import CROSSOVER_B_S, SAME_RATE_B_S, SLOPE, sweep, swept
from tests.analysis.synthetic import write_run


def found_of(folder: Path, found: list[Sample]) -> list[Throttling]:
    run: RunData = load_run(write_run(folder / "run", found))
    return throttling(run.results, run.pairs)


def test_slopes_and_curvatures_by_hand() -> None:
    """Of the points (1, 2) and (2, 5): 12/5 through the origin; b + c = 2, 2b + 4c = 5."""
    rate, loss = np.array([[1.0, 2.0, np.nan]]), np.array([[2.0, 5.0, np.nan]])
    assert slopes(rate, loss) == pytest.approx([12 / 5])
    assert curvatures(rate, loss, 1.0) == pytest.approx([0.5])
    # Relative to a rate of 2, of the loss there 4 c = 2 are the square's.
    assert curvatures(rate, loss, 2.0) == pytest.approx([2.0])


def test_a_sweep_without_noise_gives_its_slope_and_crossovers(tmp_path: Path) -> None:
    case = replace(sweep(noise=0.0), pair_noise=0.0)
    found, reserved = found_of(tmp_path, swept(case, pairs=6))
    assert (found.case, found.arm, found.at) == ("stream", "on", {"reserved_cores": 0})
    assert found.slope.value == pytest.approx(SLOPE, rel=0.02)  # rates scatter by 2 %
    assert found.reserved == 1
    assert found.crossover_b_s.value == pytest.approx(CROSSOVER_B_S, rel=0.03)
    assert found.same_rate_b_s.value == pytest.approx(SAME_RATE_B_S, rel=0.03)
    assert reserved.at == {"reserved_cores": 1}
    assert (reserved.reserved, reserved.crossover_b_s) == (None, None)
    # The achieved rates, nine tenths of those asked for, stand in the table.
    reached = {each.rate: each.rate_b_s for each in found.levels}
    asked = {"25%": 1.8e9, "50%": 3.6e9, "75%": 5.4e9, "full": 7.2e9}
    assert reached == pytest.approx(asked, rel=0.02)


def test_times_lose_a_share_per_byte(tmp_path: Path) -> None:
    """30 % more time at 7.2 GB/s, 10 % with a core that costs 10 %: equal where 0.3 x = 0.1."""
    melt = replace(sweep(noise=0.0), name="melt", unit="s", better="lower")
    case = replace(melt, base=10.0, pair_noise=0.0)
    shares = {"25%": 0.25, "50%": 0.5, "75%": 0.75}

    def time(name: str) -> float:
        share = next((value for text, value in shares.items() if text in name), 1.0)
        writes = share if name.startswith("on") else 0.0
        core = "reserved_cores=1" in name
        return 1.1 * (1 + 0.1 * writes) if core else 1 + 0.3 * writes

    effects = {name: time(name) for name in case.effects}
    found = found_of(tmp_path, swept(replace(case, effects=effects), pairs=6))[0]
    assert not found.bandwidth
    assert found.slope.value == pytest.approx(0.3 / 7.2e9, rel=0.02)
    assert found.crossover_b_s.value == pytest.approx(7.2e9 / 3, rel=0.03)
    # 1 + 0.3 u = 1.1 (1 + 0.1 u): u = 0.1 / 0.19.
    assert found.same_rate_b_s.value == pytest.approx(7.2e9 * 0.1 / 0.19, rel=0.03)


def test_a_bent_loss_is_no_line(tmp_path: Path) -> None:
    found = found_of(tmp_path / "bent", swept(sweep(noise=0.003, square=0.8), pairs=12))[0]
    assert found.line_fits is False
    assert found.curvature.value == pytest.approx(0.8 * SLOPE * 7.2e9, rel=0.2)
    straight = found_of(tmp_path / "straight", swept(sweep(noise=0.003), pairs=12))[0]
    assert straight.line_fits
    # Below half of the rate a bent loss lies below the line.
    residuals = {each.rate: each.residual for each in found.levels}
    assert residuals["50%"]
    assert residuals["50%"].high < 0


def test_one_rate_is_no_sweep_and_five_pairs_no_slope(tmp_path: Path) -> None:
    case = sweep()
    effects = {name: time for name, time in case.effects.items() if "rate=" not in name}
    assert found_of(tmp_path / "one", swept(replace(case, effects=effects), pairs=8)) == []
    (few, _) = found_of(tmp_path / "few", swept(sweep(), pairs=5))
    assert (few.pairs, few.slope, few.line_fits) == (5, None, None)
    assert few.crossover_b_s.low is None


def test_a_sweep_has_its_own_case_and_writes_and_pairs_of_two_rates(tmp_path: Path) -> None:
    own, other = (swept(replace(sweep(), name=name), pairs=8) for name in ("stream", "triad"))
    run = load_run(write_run(tmp_path / "own", own))
    alone = throttling(run.results, run.pairs)
    assert found_of(tmp_path / "both", [*own, *other])[-2:] == alone
    # The first pair has the full rate alone, the second has two.
    number, arm = pl.col("pair"), pl.col("arm").cast(pl.String)
    lost = (number == 0) & arm.str.contains("rate") | (number == 1) & arm.str.contains("25|50")
    (few, _) = throttling(run.results, run.pairs.filter(~lost))
    assert (alone[0].pairs, few.pairs, few.slope is None) == (8, 7, False)
    reads = {"injector": "perftest_read", "direction": "read"}
    for each in own:
        each.writers[:] = [replace(writer, **reads) for writer in each.writers]
    assert found_of(tmp_path / "reads", own) == []


def made_sweeps(seeds: int, pairs: int, noise: float) -> tuple[np.ndarray, ...]:
    """Rates, losses, prices and losses with the core, shapes (seeds, pairs[, rates]), GB/s."""
    rng = np.random.default_rng(5)
    shared = np.exp(rng.normal(0, 3 * noise, (seeds, pairs)))
    rate = 7.2 * np.array([0.25, 0.5, 0.75, 1.0]) * rng.uniform(0.97, 1.03, (seeds, pairs, 4))

    def run(rate_b_s: np.ndarray) -> np.ndarray:
        return rate_b_s * np.exp(rng.normal(0, noise, rate_b_s.shape))

    off = run(14.0 * shared)
    off_with = run(12.8 * shared)
    loss = off[..., None] - run((14.0 - SLOPE * rate) * shared[..., None])
    return rate, loss, off - off_with


@pytest.mark.parametrize("pairs", [8, 16])
def test_slope_and_crossover_are_recovered_as_often_as_said(pairs: int) -> None:
    rate, loss, price = made_sweeps(100, pairs, 0.01)
    slope = slopes(rate, loss)
    enclosed = {"slope": 0, "crossover": 0}
    for seed in range(100):
        found = location(slope[seed])
        enclosed["slope"] += found.low <= SLOPE <= found.high
        where = crossover(slope[seed], price[seed], 7.5)
        low, high = where.low, where.high
        enclosed["crossover"] += (low is None or low <= 4.0) and (high is None or high >= 4.0)
        assert low is not None or high is not None
    assert min(enclosed.values()) >= 90, enclosed  # P(fewer of 100 | 95 %) is 1.2 %


def test_a_line_is_doubted_in_one_straight_sweep_of_twenty() -> None:
    rate, loss, _ = made_sweeps(200, 12, 0.01)
    bent = [location(each) for each in curvatures(rate, loss, 7.2)]
    doubted = sum(not (each.low <= 0 <= each.high) for each in bent if each)
    assert doubted <= 0.08 * 200


def test_the_interval_covers_the_slope_of_made_sweeps() -> None:
    """A baseline and four rates in each of ten pairs, a true loss of 0.3: 95 % are wanted."""
    rates = np.array([0.25, 0.5, 0.75, 1.0])
    noise = 0.01 * NOISES[0].draw(np.random.default_rng(1), (300, 10 * 5)).reshape(300, 10, 5)
    low, _, high = centres(slopes(rates, 0.3 * rates + noise[..., :1] - noise[..., 1:]))
    assert ((low <= 0.3) & (high >= 0.3)).mean() >= 0.93
