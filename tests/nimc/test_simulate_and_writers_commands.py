"""The commands `nimc simulate` and `nimc writers`.

`simulate` models how slow ranks on nodes with writers slow down an application. `writers` computes
how many writers write at a time.
"""

from collections.abc import Callable
from typing import Any

import pytest

from analysis import simulate
from tests.commands import Command


@pytest.fixture
def rows(command: Command) -> Callable[[str], list[dict[str, Any]]]:
    """Returns a function that gives the rows of `nimc simulate` with these options."""
    return lambda words: command.json("simulate", *words.split())["rows"]


def test_if_all_nodes_are_written_to_the_slowdown_is_that_of_the_worst_rank(rows):
    one, two = rows("--ranks 8,16 --worst 2.5 --writers 1 --ranks-per-node 8")
    assert (one["nodes"], two["nodes"]) == (1, 2)
    # A single node is always written to. Of two nodes, each waits for the other.
    assert one["slowdown"] == pytest.approx(2.5)
    assert 1 < two["slowdown"] <= 2.5
    assert one["off_s"] == pytest.approx(1000 * 0.025)


@pytest.mark.parametrize("per_node", [16, 64])
@pytest.mark.parametrize(("writers", "number"), [("daly", 42), ("0.2%", 16), ("7", 7)])
def test_numbers_of_writers_agree_with_table_5(rows, command, per_node, writers, number):
    """They follow from the number of ranks, not of nodes.

    8,192 ranks with a mean time to interrupt of five years each have 42 or 16 writers.
    """
    words = f"--worst 1 --ranks 8192 --ranks-per-node {per_node} --writers {writers}"
    (row,) = rows(words)
    assert row["writers"] == number
    counts = "each counted rank writes for 1 s" in command("simulate", *words.split())
    # A share of the ranks follows from no interval.
    assert counts == (writers == "daly")


def test_the_number_of_writers_may_be_a_share_of_ranks(rows):
    # By Daly's interval, 64 ranks with 5 years each make 0.03 writers.
    (none,) = rows("--ranks 64 --worst 2.5")
    assert (none["writers"], none["slowdown"]) == (0, 1.0)
    (row,) = rows("--ranks 160 --worst 3 --writers 1.25%")
    assert row["writers"] == 2
    assert 1 < row["slowdown"] == row["on_s"] / row["off_s"] < 3
    (all_nodes,) = rows("--ranks 32 --worst 1 --writers 2")
    assert (all_nodes["writers"], all_nodes["slowdown"]) == (2, 1.0)


def test_paper_labels_what_is_published_and_what_is_modelled(command, monkeypatch):
    monkeypatch.setattr(simulate, "STEPS", 80)
    document = command.json("simulate", "--paper")
    assert document["single_node_slowdown_published"] == pytest.approx(2.0994, abs=1e-4)
    modelled = document["rows"][-1]["slowdown_modelled_worst_rank"]
    assert 1.5 < modelled < 2.0995
    # The paper prints these in its abstract ('up to 3X') and in section VII-B ('330% increase').
    assert [claim["slowdown"] for claim in document["readings"]] == pytest.approx([3.0, 3.3, 4.3])
    for reading, excess in zip(document["readings"], (2.0, 2.3, 3.3), strict=True):
        assert reading["explained_share_of_excess"] == pytest.approx((modelled - 1) / excess)
    assert [row["writers_published"] for row in document["rows"][6:]] == [0, 1, 2, 5, 15, 42]
    assert document["rows"][6]["slowdown_modelled_worst_rank"] == 1.0
    text = " ".join(command("simulate", "--paper").split())
    for reading in document["readings"]:
        assert f"{100 * reading['explained_share_of_excess']:.1f} % of the excess" in text


# `nimc writers`


def test_8192_ranks_of_table_5(command):
    (row,) = command.json("writers", "--ranks", 8192, "--mtti", "5y", "--write", "1s")["rows"]
    assert (row["concurrent_writers"], row["constant_share_writers"]) == (42, 16)


def test_paper_says_that_the_fdr_column_does_not_follow_from_its_inputs(command):
    text = command("writers", "--paper")
    assert "does not follow: writers at a time, write of 0.5 s as stated" in text
    assert "effective write of 0.784 s" in text


def test_systems_beyond_the_range_of_the_series_are_named(command):
    # Of ranks with 100 s each, 50 fail every 2 s. So a write of 4 s is not below twice that time.
    options = ("--ranks", "49,50", "--mtti", "100s", "--write", "4s")
    inside, beyond = command.json("writers", *options)["rows"]
    assert (inside["in_range"], beyond["in_range"]) == (True, False)
    assert beyond["interval_s"] == 2.0
    assert command("writers", *options).endswith("is set to that time: ranks 50\n")
