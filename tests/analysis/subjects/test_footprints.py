"""Tests whether a loss is caused in caches or in memory, with made runs of known cause."""

from collections import Counter

import polars as pl
import pytest

from analysis.questions.presentation import mark_positions
from analysis.questions.question import INCONCLUSIVE, answer, sentences_of
from analysis.report.data import load_run
from analysis.subjects.factors_section import LEVELS
from analysis.subjects.footprints import (
    CACHE,
    CACHE_AND_MEMORY,
    CAUSES,
    CELLS,
    MEMORY,
    NO_LOSS,
    cause,
)
from tests.analysis.drawn import shown
from tests.analysis.subjects.made_footprints import KIB, made_run
from tests.studies.footprints import MIB, PLANTED, planted_run, word_counts


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_cause_is_named(planted, everywhere):
    """`python -m tests.studies.footprints` simulates 200 runs of each cause."""
    assert word_counts(planted, everywhere, 6) == Counter({planted: 6})


@pytest.mark.parametrize(
    "rates", [["50%"], ["full", "50%"], ["25%", "50%"], ["900MB_s", "1GB_s", "25GB_s"]]
)
def test_the_highest_rate_is_compared_and_lower_ones_are_not(rates):
    """Names of treatments have every rate but the full one."""

    def run_at(rates):
        run = planted_run(MEMORY, True, 1)
        arm, key = pl.col("arm"), pl.col("key")
        silent = run.samples.filter(pl.col("role") != "effect")
        writing = run.samples.filter(role="effect")
        at_rates = [
            writing
            if rate == "full"
            else writing.with_columns(arm + f",rate={rate}", key + f",rate={rate}")
            for rate in rates
        ]
        run.samples = pl.concat([silent, *at_rates])
        return answer(CAUSES, run)

    rows = run_at(rates)
    assert cause(rows) == MEMORY
    assert rows.equals(run_at(["full"]))


def test_five_pairs_name_nothing():
    rows = answer(CAUSES, planted_run(CACHE_AND_MEMORY, True, 1, pairs=5))
    assert cause(rows) == INCONCLUSIVE
    assert set(rows["why"]) == {"5, fewer than 6 pairs"}
    assert sentences_of(CAUSES, rows) == [
        "made: not decided. Too little evidence at working sets of 512 KiB, 8 MiB, 128 MiB a rank."
    ]


@pytest.mark.parametrize(("pairs", "is_shown"), [(6, False), (8, True)])
def test_a_loss_is_shown_with_an_error_of_5_percent(pairs, is_shown):
    """All pairs are slower beyond the cache. By chance, this happens in 1 of 64 or 1 of 256 cases.

    The first analysis, after 6 pairs, has a quarter of the error, the next one 3/16. So the p
    values are 6.25 % and 2.1 %.
    """
    run = planted_run(MEMORY, True, 1, pairs=pairs)
    has_working_set = pl.col("arm").cast(pl.String).str.contains("working_set=524288B")
    run.samples = run.samples.filter(has_working_set)
    assert answer(CAUSES, run)["more"].to_list() == [is_shown]


@pytest.mark.parametrize(
    ("llc_b", "sockets", "inside_at", "beyond_at", "why"),
    [
        # Footprints are 64 KiB, 4 MiB, 16 MiB and 128 MiB.
        (32 * MIB, 1, "4 MiB", "128 MiB", ""),
        (128 * MIB, 1, "16 MiB", None, "no footprint beyond"),
        (64 * MIB, 2, "4 MiB", "128 MiB", ""),
        (63 * MIB, 2, "64 KiB", "128 MiB", ""),
        (8 * MIB, 2, "64 KiB", "128 MiB", ""),
        (MIB // 4, 1, None, "128 MiB", "no footprint inside"),
        (None, 1, None, None, "the size of the last-level caches is unknown"),
    ],
)
def test_the_footprints_inside_and_beyond_the_caches(llc_b, sockets, inside_at, beyond_at, why):
    run = planted_run(CACHE_AND_MEMORY, True, 1, pairs=6)
    run.provenance = {"sha": {"nodes": {"node": {"llc_total_b": llc_b, "sockets": sockets}}}}
    row = answer(CAUSES, run).row(0, named=True)
    assert (row["inside_at"], row["beyond_at"]) == (inside_at or "unknown", beyond_at or "unknown")
    assert not why or row["why"] == why


def test_caches_of_origins_are_no_caches_of_targets():
    run = planted_run(CACHE_AND_MEMORY, True, 1, pairs=6)
    (sizes_b,) = answer(CAUSES, run).select("llc_b", "inside_b").unique().rows()
    run.provenance["sha"]["nodes"]["origin"] = {"llc_total_b": 4 * sizes_b[0], "sockets": 1}
    assert answer(CAUSES, run).select("llc_b", "inside_b").unique().rows() == [sizes_b]


def test_all_writers_of_a_target_pass_through_memory_together():
    run = planted_run(CACHE_AND_MEMORY, True, 1, pairs=6)
    run.samples = run.samples.with_columns(writers=pl.col("writers") * 3, nodes=pl.lit("node,b"))
    # Three writers on two nodes are two for each node, rounded up.
    assert answer(CAUSES, run)["inside_b"][0] == 2 * 64 * KIB


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        ([(0, 1, 1, 0), (0, 1, 0, 1)], MEMORY),
        ([(1, 0, 0, 1), (0, 1, 0, 1)], CACHE),
        ([(1, 0, 0, 1), (0, 1, 1, 0)], CACHE_AND_MEMORY),
        ([(1, 0, 1, 0), (0, 0, 0, 0)], CACHE_AND_MEMORY),
        ([(0, 1, 0, 1), (0, 1, 0, 1)], NO_LOSS),
        # If one cell is not decided, it may have the other cause.
        ([(1, 0, 0, 1), (0, 1, 0, 0)], INCONCLUSIVE),
        ([(0, 1, 1, 0), (0, 0, 0, 1)], INCONCLUSIVE),
        ([(0, 1, 0, 1), (0, 0, 0, 1)], INCONCLUSIVE),
    ],
)
def test_a_case_has_the_causes_of_its_working_sets(shown, word):
    names = ("loss", "same", "more", "no_more")
    rows = [dict(zip(names, map(bool, row), strict=True)) for row in shown]
    assert cause(pl.DataFrame(rows)) == word


@pytest.mark.slow
def test_the_page_names_the_cause_and_draws_the_map(tmp_path):
    run = load_run(made_run(tmp_path))
    rows = answer(CAUSES, run).to_dicts()
    assert [row["word"] for row in rows] == [MEMORY, MEMORY]
    assert [(row["inside_low"] < 1 < row["inside_high"]) for row in rows] == [True, True]
    assert all(row["beyond_low"] < 1.2 < row["beyond_high"] for row in rows)
    cells = {(row["working_set"], row["footprint"]): row for row in answer(CELLS, run).to_dicts()}
    assert len(cells) == 6
    for end in ("", "_low", "_high"):
        assert cells["64 MiB", "64 MiB"][f"dram_share{end}"] == pytest.approx(0.5, rel=0.1)
        assert cells["64 MiB", "2 MiB"][f"dram_share{end}"] == pytest.approx(0.0, abs=0.05)
    assert shown(CAUSES, run).sentences == [
        "membench: loss follows the footprint of the writes: memory (working sets of 512 KiB,"
        " 64 MiB a rank)."
    ]
    (picture,) = shown(CELLS, run).pictures
    svg = picture.svg("s")
    for size in ("64 KiB", "2 MiB", "512 KiB", "L2", "last-level caches"):
        assert size in svg
    assert "1.20" in svg
    # Levels named after parts of the caches are ordered by bytes, not by names.
    levels = answer(LEVELS, run).filter(line="on@working_set=512KiB")["level"]
    assert list(levels) == ["64KiB", "llc_16", "2*llc"]


def test_marks_of_cache_sizes_are_between_levels():
    """A size equal to a level is marked after it.

    There is no mark before the first level, or after the last one.
    """
    for mark, position in {8: 0.5, 16: 1.5, 63: 1.5, 4: 0.5}.items():
        positions = mark_positions(CELLS, [4, 16, 64], {"l2_b": 2, "llc_b": mark})
        assert positions == {position: ["last-level caches"]}
    assert mark_positions(CELLS, [4, 16, 64], {"l2_b": 3, "llc_b": 64}) == {}
    positions = mark_positions(CELLS, [4, 16, 64], {"l2_b": 17, "llc_b": 60})
    assert positions == {1.5: ["L2", "last-level caches"]}
