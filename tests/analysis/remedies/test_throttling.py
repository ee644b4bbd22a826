"""Tests the loss per byte written, and the rate above which a reserved core is better.

The sweeps of rates are made, with known true values.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.questions.question import answer
from analysis.remedies.throttling import THROTTLED_RUNS, THROTTLING, fitted_slopes, sweeps_of_factor
from analysis.report.data import RunData
from records.sample import Better, Sample
from tests.analysis.remedies.sweeps import CROSSOVER_B_S, SAME_RATE_B_S, SLOPE, sweep, swept
from tests.analysis.synthetic import loaded_run, result


def loaded(folder: Path, runs: list[Sample]) -> RunData:
    return loaded_run(folder / "run", runs)


def rows_of(folder: Path, runs: list[Sample]) -> list[dict[str, Any]]:
    return answer(THROTTLING, loaded(folder, runs)).to_dicts()


def runs_of(rates: Any, losses: Any, case: str = "c") -> pl.DataFrame:
    """Return runs of pairs; each pair has several rates, each with a loss."""
    names = {"arm": "on", "at": "", "others": "", "cores": None, "bandwidth": True, "unit": "B/s"}
    return pl.DataFrame(
        [
            {"case": case, "better": "higher", **names, "block": 0, "pair": pair, "off": 1.0}
            | {"reached_b_s": float(rate), "loss": float(loss)}
            for pair, (pair_rates, pair_losses) in enumerate(zip(rates, losses, strict=True))
            for rate, loss in zip(pair_rates, pair_losses, strict=True)
        ],
        schema_overrides={"cores": pl.Int64},
    )


def test_slopes_and_curvatures_by_hand() -> None:
    """The points are (1, 2) and (2, 5).

    A line through the origin has the slope 12/5. A parabola b x + c x^2 has b + c = 2 and
    2b + 4c = 5.
    """
    (row,) = fitted_slopes(runs_of([[1, 2]], [[2, 5]])).to_dicts()
    assert row["slope"] == pytest.approx(12 / 5)
    # The curvature is the part of the loss at the highest rate that is quadratic: 4 c = 2.
    assert row["curvature"] == pytest.approx(2.0)


def test_a_sweep_without_noise_gives_its_slope_and_crossovers(tmp_path: Path) -> None:
    case = replace(sweep(noise=0.0), pair_noise=0.0)
    row, reserved = rows_of(tmp_path, swept(case, pairs=6))
    assert (row["case"], row["arm"], row["at"]) == ("stream", "on", "reserved cores 0")
    assert row["slope"] == pytest.approx(SLOPE, rel=0.02)  # rates scatter by 2 %
    assert row["reserved"] == 1
    assert row["crossover_b_s"] == pytest.approx(CROSSOVER_B_S, rel=0.03)
    assert row["same_rate_b_s"] == pytest.approx(SAME_RATE_B_S, rel=0.03)
    assert (reserved["at"], reserved["reserved"]) == ("reserved cores 1", None)
    assert reserved["crossover_b_s"] is None


@pytest.mark.parametrize(("unit", "better"), [("s", "lower"), ("1/s", "higher")])
def test_times_lose_a_share_per_byte(tmp_path: Path, unit: str, better: Better) -> None:
    """At 7.2 GB/s, the time is 30 % longer, with a core 10 %. The core itself costs 10 %.

    At a share x of this rate, the loss equals the core's price if 0.3 x = 0.1.
    """
    melt = replace(sweep(noise=0.0), name="melt", unit=unit, better=better)
    case = replace(melt, base=10.0, pair_noise=0.0)
    shares = {"25%": 0.25, "50%": 0.5, "75%": 0.75}

    def time(name: str) -> float:
        share = next((value for text, value in shares.items() if text in name), 1.0)
        writes = share if name.startswith("on") else 0.0
        core = "reserved_cores=1" in name
        return 1.1 * (1 + 0.1 * writes) if core else 1 + 0.3 * writes

    run = loaded(
        tmp_path, swept(replace(case, effects={name: time(name) for name in case.effects}), pairs=6)
    )
    row = answer(THROTTLING, run).to_dicts()[0]
    assert not row["bandwidth"]
    assert row["slope"] == pytest.approx(0.3 / 7.2e9, rel=0.02)
    assert row["crossover_b_s"] == pytest.approx(7.2e9 / 3, rel=0.03)
    # Both are as fast at a share u of the rate with 1 + 0.3 u = 1.1 (1 + 0.1 u): u = 0.1 / 0.19.
    assert row["same_rate_b_s"] == pytest.approx(7.2e9 * 0.1 / 0.19, rel=0.03)
    # The drawn line begins at the baseline of 10, and fits the runs: at 7.2 GB/s, it has 13 s, or
    # 10/1.3 per second.
    drawn = answer(THROTTLED_RUNS, run).filter(at="reserved cores 0")
    for point in drawn.to_dicts():
        longer = 1 + 0.3 * point["reached_b_s"] / 7.2e9
        line = 10 * longer if better == "lower" else 10 / longer
        assert point["line"] == pytest.approx(line, rel=0.01)
        assert point["fom"] == pytest.approx(point["line"], rel=0.02)
    assert drawn.height == 6 * 5


def test_a_curved_loss_has_no_crossover(tmp_path: Path) -> None:
    bent = rows_of(tmp_path / "bent", swept(sweep(noise=0.003, square=0.8), pairs=12))[0]
    assert (bent["word"], bent["why"]) == ("no", "the loss is curved")
    assert bent["curvature"] == pytest.approx(0.8 * SLOPE * 7.2e9, rel=0.2)
    assert bent["crossover_b_s"] is None
    straight = rows_of(tmp_path / "straight", swept(sweep(noise=0.003), pairs=12))[0]
    assert straight["word"] == "yes"


def test_a_curved_loss_with_the_cores_leaves_only_the_crossover_with_their_price(
    tmp_path: Path,
) -> None:
    """Without the core, a line fits the loss. With it, the loss grows with the square of the rate.

    The application is as fast with it where 0.3 x = 1.2 + 0.1 x^2 / 7.2, which is at 5.3 GB/s. Two
    lines would give 5.6 GB/s.
    """
    bent_case, straight_case = sweep(noise=0.001, square=1 / 3), sweep(noise=0.001)
    bent = {name: time for name, time in bent_case.effects.items() if "cores" in name}
    mixed = replace(straight_case, effects={**straight_case.effects, **bent})
    row, with_core = rows_of(tmp_path, swept(mixed, pairs=10))
    assert (row["word"], with_core["word"]) == ("yes", "no")
    assert row["crossover_b_s"] == pytest.approx(CROSSOVER_B_S, rel=0.03)
    assert [row[f"same_rate_b_s{end}"] for end in ("", "_low", "_high")] == [None] * 3


def test_one_rate_is_no_sweep_and_five_pairs_no_slope(tmp_path: Path) -> None:
    case = sweep()
    effects = {name: time for name, time in case.effects.items() if "rate=" not in name}
    assert rows_of(tmp_path / "one", swept(replace(case, effects=effects), pairs=8)) == []
    (few, _) = rows_of(tmp_path / "few", swept(sweep(), pairs=5))
    assert (few["n"], few["slope"], few["word"]) == (5, None, "inconclusive")
    assert few["crossover_b_s_low"] is None


@pytest.mark.slow
def test_a_sweep_uses_one_case_only_writes_and_pairs_with_two_rates(tmp_path: Path) -> None:
    own, other = (swept(replace(sweep(), name=name), pairs=8) for name in ("stream", "triad"))
    run = loaded(tmp_path / "own", own)
    alone = answer(THROTTLING, run).to_dicts()
    together = rows_of(tmp_path / "both", [*own, *other])
    assert [row for row in together if row["case"] == "stream"] == alone
    # Pair 0 has only the full rate, so it is left out; pair 1 has two rates.
    number, arm = pl.col("pair"), pl.col("arm").cast(pl.String)
    lost = (number == 0) & arm.str.contains("rate") | (number == 1) & arm.str.contains("25|50")
    (few, _) = answer(THROTTLING, replace(run, pairs=run.pairs.filter(~lost))).to_dicts()
    assert (alone[0]["n"], few["n"], few["slope"] is None) == (8, 7, False)
    reads = {"injector": "perftest_read", "direction": "read"}
    for sample in own:
        sample.writers[:] = [replace(writer, **reads) for writer in sample.writers]
    assert rows_of(tmp_path / "reads", own) == []


def test_rows_that_differ_in_one_level_belong_together() -> None:
    rows = [
        result(factors={"rate": "full", "cores": 0}),
        result(arm="on@rate=50%", factors={"rate": "50%", "cores": 0}),
        result(arm="on@cores=1", factors={"rate": "full", "cores": 1}),  # its only rate
        result(case="melt", factors={"rate": "full", "cores": 0}),
        result(arm="aa", role="floor", factors={"rate": "full", "cores": 0}),
        result(arm="on@x=1", factors={"x": 1, "cores": 0}),
    ]
    assert sweeps_of_factor(rows, "rate") == [rows[:2]]
