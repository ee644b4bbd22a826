"""Effects of the order of runs: made into data, found again, and kept out of the slowdown."""

from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from analysis.effects.carry_over import OrderEffect, order_effects
from analysis.report.data import load_run
from analysis.report.page import render
from analysis.statistics.interval import Estimate, median_interval
from nimc.records.order import pair_order
from tests.analysis.synthetic import STREAM, samples, write_run

ARMS: dict[str, str | None] = {"off": None, "on": "off", "spin": "off", "aa": "off"}
ROLES = {"off": "baseline", "on": "effect", "spin": "control", "aa": "floor"}


def night(
    seed: int,
    pairs: int = 10,
    noise: float = 0.01,
    first: float = 1.0,
    after: float = 1.0,
    better: str = "lower",
) -> pl.DataFrame:
    """Judged samples of one block: times, or rates, with known effects of the order."""
    rng = np.random.default_rng(seed)
    rows, before = [], "off"
    for pair in range(pairs):
        level = rng.normal(0, 0.05)
        for position, arm in enumerate(pair_order(ARMS, seed, "c", pair)):
            time = level + rng.normal(0, noise) + (log(1.4) if arm == "on" else 0.0)
            time += (log(first) if position == 0 else 0.0) + (log(after) if before == "on" else 0.0)
            rows.append((pair, position, arm, exp(-time if better == "higher" else time)))
            before = arm
    frame = pl.DataFrame(rows, ["pair", "position", "arm", "fom"], orient="row")
    return frame.with_columns(
        case=pl.lit("c"),
        block=pl.lit(0),
        fom_better=pl.lit(better),
        status=pl.lit("counts"),
        role=pl.col("arm").replace_strict(ROLES),
    )


def effects(**asked: object) -> list[OrderEffect]:
    found = order_effects(night(**asked), margin=0.02)  # type: ignore[arg-type]
    assert [each.kind for each in found] == ["first run", "after writers"]
    return found


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_without_noise_the_effects_are_as_made(better: str) -> None:
    first, after = effects(seed=1, noise=1e-9, first=1.02, after=0.97, better=better)
    assert (first.ratio.value, after.ratio.value) == pytest.approx((1.02, 0.97), abs=1e-6)
    assert first.found
    assert after.found
    assert first.sentence == "a pair's first run is 2.0 % slower [2.0, 2.0]"
    assert after.sentence == "a run that follows one with writers is 3.0 % faster [3.0, 3.0]"


def test_the_first_run_of_a_block_follows_none() -> None:
    """Although the block before ended with writers: each was an allocation of its own."""
    blocks = [night(seed, noise=1e-9, after=0.97) for seed in range(8)]
    assert sum(each["role"][-1] == "effect" for each in blocks[:-1]) > 0
    frame = pl.concat(each.with_columns(block=pl.lit(i)) for i, each in enumerate(blocks))
    first, after = order_effects(frame, margin=0.02)
    assert (first.ratio.value, after.ratio.value) == pytest.approx((1.0, 0.97), abs=1e-6)


def test_what_is_not_found_is_not_decided_unless_its_interval_is_narrow() -> None:
    narrow = [each.verdict for each in effects(seed=3, pairs=20, noise=1e-3)]
    assert narrow == ["none found", "none found"]
    wide = effects(seed=3, pairs=6, noise=0.2)
    assert all(each.ratio.low < 0.9 or each.ratio.high > 1.1 for each in wide)
    assert [each.verdict for each in wide] == ["not decided", "not decided"]
    # By hand: an effect of 1 % with an interval from 0.8 to 1.2 % is found, and within 2 %.
    narrow_one = Estimate(1.01, 1.008, 1.012, 0.95)
    found = OrderEffect("c", "first run", 99, narrow_one, 1e-3, True, True)
    assert found.verdict == "found"
    around = replace(found, ratio=Estimate(0.996, 0.98, 1.01, 0.95))
    assert "0.4 % faster [-1.0, 2.0]" in around.sentence


def test_planted_effects_are_found_and_not_taken_for_another() -> None:
    """One of 2 % in 24 nights, of 3 % in ten, and none in 30."""
    nights = [effects(seed=seed, first=1.02) for seed in range(24)]
    assert sum(first.found for first, _ in nights) >= 21
    assert sum(after.found for _, after in nights) <= 5
    # 95 % of 24: 23 expected, 19 is the 0.3 % quantile of the binomial distribution.
    assert sum(first.ratio.low <= 1.02 <= first.ratio.high for first, _ in nights) >= 19
    nights = [effects(seed=seed, after=1.03) for seed in range(10)]
    assert sum(after.found for _, after in nights) >= 9
    found = sum(any(each.found for each in effects(seed=seed)) for seed in range(30))
    assert found <= stats.binom.ppf(0.999, 30, 0.05)


def test_too_few_pairs_say_nothing() -> None:
    assert order_effects(night(seed=1, pairs=5), 0.02) == []
    rejected = night(seed=1, pairs=6).with_columns(
        status=pl.when(pl.col("pair") == 0, pl.col("arm") == "on")
        .then(pl.lit("rejected"))
        .otherwise("status")
    )
    assert order_effects(rejected, 0.02) == []


def test_a_first_run_effect_stays_out_of_the_slowdown() -> None:
    """A pair's first run is 2 % slower, in 400 nights."""
    rng, errors, covered = np.random.default_rng(5), [], 0
    for seed in range(400):
        first = np.array([pair_order(ARMS, seed, "stream", pair)[0] for pair in range(10)])
        on, off = (
            rng.normal(0, 0.01, 10) + log(1.02) * (first == arm) + shift
            for arm, shift in (("on", log(1.1)), ("off", 0.0))
        )
        found = median_interval(np.exp(on - off).tolist())
        errors.append(found.value / 1.1 - 1)
        covered += found.low <= 1.1 <= found.high
    assert abs(np.mean(errors)) < 0.002
    assert covered >= 376


def test_the_report_says_it(tmp_path: Path) -> None:
    """Every first run of a pair takes 5 % longer; the noise is 1 %."""
    found = [
        replace(each, fom=each.fom / 1.05) if each.position == 0 and not each.warmup else each
        for each in samples(replace(STREAM, name="theirs"), pairs=12)
    ]
    run = load_run(write_run(tmp_path / "run", found))
    first = run.order[0]
    assert (first.case, first.kind, first.pairs, first.found) == ("theirs", "first run", 12, True)
    assert first.ratio.value == pytest.approx(1.05, abs=0.02)
    assert all(first.sentence in row.notes for row in run.results)
    assert run.document()["order_effects"][0]["ratio"] == first.ratio.value
    assert first.sentence.replace("'", "&#39;") in render([run])
