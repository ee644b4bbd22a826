"""Tests how roles (kinds of counts) change with traffic, and on which rank they change most.

True values of the made counts are known.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.subjects.correlations import RUN_CORRELATIONS
from analysis.subjects.paired_roles import sums_over_ranks
from analysis.subjects.role_changes import CHANGES, hit_rank_sentences, worst_ranks
from tests.analysis.made_counters import (
    CASES,
    FIGURE_4,
    RANKS,
    TOOL,
    counter_row,
    with_tool,
    write_counts,
    write_rows,
)
from tests.analysis.made_counters import STALLS as STALLS_EVENT
from tests.analysis.subjects.made_causes import LAMMPS, change_of, made_run, rows
from tests.analysis.synthetic import answered, remedies, samples, write_run


def test_a_change_is_that_of_the_sums_over_ranks(tmp_path):
    row = change_of(made_run(tmp_path), "L1 misses")
    assert (row["case"], row["baseline"], row["tool"], row["n"]) == ("lammps", "off", TOOL, 8)
    # Each of 4 ranks has 4e7 misses per second for 177 s, and 1.1 times as many under traffic.
    assert row["off"] == pytest.approx(RANKS * 4e7 * 177, rel=0.05)
    assert row["ratio_low"] <= 1.1 <= row["ratio_high"]


def grown(*pairs: Mapping[int, float]) -> pl.DataFrame:
    """Return pairs of counts: 10 for each rank without traffic, times its factor with traffic."""
    rows = [
        {"block": 0, "pair": pair, "rank": rank, "off": 10.0, "on": 10 * growth}
        for pair, growths in enumerate(pairs)
        for rank, growth in growths.items()
    ]
    numbers = dict.fromkeys(("block", "pair", "rank"), pl.Int64)
    frame = pl.DataFrame(rows, schema={**numbers, "off": pl.Float64, "on": pl.Float64})
    names = {"case": "c", "treatment": "on", "tool": TOOL, "role": "L1 misses"}
    return frame.with_columns(pl.lit(text).alias(name) for name, text in names.items())


@pytest.mark.parametrize(("role", "off", "on"), [("L1 misses", 20, 40), ("memory bound", 10, 20)])
def test_ranks_are_summed_or_averaged_in_pairs_of_which_all_were_counted(role, off, on):
    # Two ranks count 10 each without traffic, and 10 and 30 with traffic. In pair 7, a count is
    # missing.
    counts = grown(*[{0: 1.0, 1: 3.0}] * 50).with_columns(baseline=pl.lit("off"), role=pl.lit(role))
    lost = pl.when(pair=7, rank=0).then(None).otherwise("on").alias("on")
    sums = sums_over_ranks(counts.with_columns(lost))
    pairs = [number for number in range(50) if number != 7]
    assert sums.select("pair", "off", "on").rows() == [(number, off, on) for number in pairs]


def worst(*pairs: Mapping[int, float]) -> dict[str, Any]:
    (row,) = worst_ranks(grown(*pairs)).to_dicts()
    return row


def test_the_p_value_of_the_worst_of_two_ranks_by_hand():
    row = worst(*[{0: 1.0, 1: 1.2}] * 5, {0: 1.3, 1: 1.2})
    assert (row["rank"], row["times"], row["leads"]) == (1, 5, 6)
    # The probability that either rank is the worst in five or six of six pairs is 2 x (6 + 1) / 64.
    assert row["p"] == pytest.approx(14 / 64)
    assert (row["growth"], row["median_growth"]) == pytest.approx((1.2, 1.1))


@pytest.mark.parametrize("pairs", [12, 24])
def test_a_rank_that_scatters_more_is_not_called_hit_more(pairs: int) -> None:
    # Counts of rank 0 scatter by 5 %, those of the 15 others by 1 %. Traffic changes none.
    rng = np.random.default_rng(1)
    scatters = np.array([0.05] + [0.01] * 15) * 2**0.5
    hits = 0
    for _ in range(20):
        growths = np.exp(rng.normal(0, scatters, (pairs, 16)))
        hits += worst(*(dict(enumerate(row)) for row in growths))["p"] < 0.05
    assert hits <= 1


def test_the_p_value_does_not_depend_on_the_number_of_ranks() -> None:
    row = worst(*[{0: 1.0, 1: 1.1, 2: 1.0, 3: 1.3}] * 8)
    # Rank 3 grows most in 8 of 8 pairs. Two ranks at most have a chance of 1/2 in each pair.
    assert (row["rank"], row["times"]) == (3, 8)
    assert row["p"] == pytest.approx(2 / 2**8)


def test_pairs_in_which_the_other_ranks_tie_count_as_pairs() -> None:
    # Only rank 0 scatters: it grows most in half of the pairs, and the others tie in the rest.
    row = worst(*[{0: 1.1, 1: 1.0, 2: 1.0}, {0: 0.9, 1: 1.0, 2: 1.0}] * 8)
    assert (row["rank"], row["times"], row["leads"], row["p"]) == (0, 8, 8, 1.0)


def test_pairs_without_a_worst_rank_or_without_a_rank_are_left_out():
    row = worst({0: 1.0, 1: 1.0}, {0: 1.0, 1: 2.0}, {1: 3.0})
    assert (row["rank"], row["times"], row["leads"], row["p"]) == (1, 1, 1, 1.0)
    unknown = grown({0: 1.0, 1: 2.0}, {0: 3.0, 1: 1.0})
    for change in (pl.lit(0.0), pl.lit(None, pl.Float64)):
        lost = pl.when(pair=0, rank=0).then(change).otherwise("off").alias("off")
        assert worst_ranks(unknown.with_columns(lost))["rank"].to_list() == [
            0
        ]  # from the second pair


@pytest.mark.parametrize("pairs", [[], [{0: 1.0}], [{0: 1.0, 1: 1.0}]])
def test_without_two_ranks_of_which_one_grew_most_there_is_no_worst(pairs):
    assert worst_ranks(grown(*pairs)).is_empty()


def test_a_rank_with_twice_the_misses_is_named_and_others_are_not(tmp_path):
    run = made_run(tmp_path, [CASES[0], LAMMPS], pairs=12)
    write_counts(run, LAMMPS, with_tool(samples(LAMMPS, pairs=12)), most_hit_rank=2)
    table = answered(CHANGES, run).filter(treatment="on")
    by_role = {(row["case"], row["role"]): row for row in table.to_dicts()}
    for role in ("L1 misses", "L2 misses", "L3 misses"):
        row = by_role["lammps", role]
        assert (row["rank"], row["times"], row["leads"]) == (2, 12, 12)
        assert row["growth"] / row["median_growth"] == pytest.approx(2.0, rel=0.1)
        # A rank grows most in all 12 pairs with a chance of at most 2 x (1/2)^12. Holm's method
        # then covers 6 roles of 2 cases.
        assert 2 / 2**12 <= row["p"] <= 12 * 2 / 2**12
    for (case, role), row in by_role.items():
        if case == "cns" or role in ("cycles", "instructions", "memory stalls"):
            assert row["p"] > 0.05
    named, alike = hit_rank_sentences(table)
    assert re.fullmatch(
        r"on: one rank is hit more than the others in lammps \(rank 2, whose L\d misses grew"
        r" 2\.[12]\d times, the median rank's 1\.[01]\d times\)\.",
        named,
    )
    assert alike == "on: no rank is shown to be hit more than others in cns."
    # A p value of 0.05 shows nothing.
    for p, start in ((0.049, "on: one rank is hit more"), (0.05, "on: no rank is shown")):
        lammps = table.filter(case="lammps").with_columns(p=pl.lit(p))
        (text,) = hit_rank_sentences(lammps)
        assert text.startswith(start)
    # Other ranks execute instructions while they wait for the slowest one, so instructions do not
    # count.
    assert hit_rank_sentences(table.with_columns(role=pl.lit("instructions"))) == []


def test_a_rank_with_twice_the_misses_is_named_by_the_presets_too(tmp_path):
    run = made_run(tmp_path, [LAMMPS], tool=FIGURE_4, most_hit_rank=2)
    (text,) = hit_rank_sentences(answered(CHANGES, run).filter(treatment="on"))
    assert text.startswith("on: one rank is hit more than the others in lammps (rank 2, whose L")


def test_runs_of_two_tools_and_runs_without_are_never_mixed(tmp_path):
    # There are runs without a tool, with `cheap`, which counts only cycles, and with `dear`, which
    # makes runs three times as long. Only runs with a tool have counts.
    times = {"on": 2.0}
    for tool, price in (("cheap", 1.0), ("dear", 3.0)):
        times |= {f"off@tool={tool}": price, f"on@tool={tool}": 2.0 * price}
    case = replace(remedies(times=times), name="melt", noise=0.005)
    runs = samples(case, pairs=8)
    run = write_run(tmp_path / "run", runs)
    cheap = {"cycles": 1e9}
    counted = {
        "cheap": ("perf_stat", cheap),
        "dear": (TOOL, cheap | {STALLS_EVENT: 1e8}),
        "": ("", {}),
    }
    lines = []
    for sample in runs:
        tool, events = counted[sample.arm.partition("tool=")[2]]
        lines += [counter_row(sample.key, e, v * sample.fom, tool=tool) for e, v in events.items()]
    write_rows(run, "melt", lines)
    changes = {(row["tool"], row["role"]): row for row in rows(run, CHANGES)}
    assert set(changes) == {("perf_stat", "cycles"), (TOOL, "cycles"), (TOOL, "memory stalls")}
    # With the same tool, on / off is 2. With different tools, it would be 6, 2/3 or a median
    # between them.
    for change in changes.values():
        assert change["ratio"] == pytest.approx(2.0, rel=0.02)
        assert change["n"] == 8
    # Correlations use the 8 runs with the tool that has most roles. Their cycles are 1e9 per
    # second, so they are on a line.
    within = [
        (row["points"], round(row["r"], 6))
        for row in rows(run, RUN_CORRELATIONS)
        if (row["treatment"], row["role"]) == ("off", "cycles")
    ]
    assert within == [(8, 1.0)]
