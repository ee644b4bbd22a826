"""`nimc simulate` and `nimc writers` as they are called."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from analysis import simulate
from reframe_tests.scaling import ScaleRequest, load
from tests.commands import Command
from tests.records.machine import made

Run = Callable[..., dict[str, Any]]
FACTS = {"cores": 16, "sockets": 2, "numa_nodes": 2, "llc": "40MiB", "memory": "64GiB"}


@pytest.fixture
def run(command: Command) -> Run:
    return functools.partial(command.json, "simulate")


def test_where_all_nodes_are_written_to_the_slowdown_is_the_worst_ranks(run: Run) -> None:
    found = run(
        *("--ranks", "8,16", "--worst", "2.5", "--writers", "1", "--ranks-per-node", "8"),
    )
    assert [row["nodes"] for row in found["rows"]] == [1, 2]
    one, two = (row["slowdown"] for row in found["rows"])
    # The only node is always written to; of two, each waits for the other.
    assert one == pytest.approx(2.5)
    assert 1 < two <= 2.5
    assert found["rows"][0]["off_s"] == pytest.approx(1000 * 0.025)


def test_writers_are_those_of_table_5_as_for_nimc_writers_and_lammps_scaling(
    run: Run, command: Command
) -> None:
    """Of ranks, however many a node has: 42 and 16 of 8,192 that have five years each."""
    for per_node in (16, 64):
        words = ("--worst", "1", "--ranks", "8192", "--ranks-per-node", per_node)
        for writers, number in (("daly", 42), ("0.2%", 16), ("7", 7)):
            (row,) = run(*words, "--writers", writers)["rows"]
            assert row["writers"] == number
            said = "each counted rank writes for 1 s" in command(
                "simulate", *words, "--writers", writers
            )
            assert said == (writers != "7")
        machine = made.machine(facts={**FACTS, "cores": per_node})
        asked = ScaleRequest(8192 // per_node, write="1s", node_mtti="5y")
        assert load(asked, machine).writers == {"daly": 42, "constant": 16}
    (row,) = command.json("writers", "--ranks", "8192", "--mtti", "5y", "--write", "1s")["rows"]
    assert (row["concurrent_writers"], row["constant_share_writers"]) == (42, 16)


def test_a_share_of_ranks(run: Run) -> None:
    # Daly: 64 ranks with 5 years each make 0.03 writers.
    (none,) = run("--ranks", "64", "--worst", "2.5")["rows"]
    assert (none["writers"], none["slowdown"]) == (0, 1.0)
    (row,) = run("--ranks", "160", "--worst", "3", "--writers", "1.25%")["rows"]
    assert row["writers"] == 2
    assert 1 < row["slowdown"] == row["on_s"] / row["off_s"] < 3
    (all_nodes,) = run("--ranks", "32", "--worst", "1", "--writers", "2")["rows"]
    assert (all_nodes["writers"], all_nodes["slowdown"]) == (2, 1.0)


def test_paper_labels_what_is_published_and_what_is_modelled(
    run: Run, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "STEPS", 80)
    found = run("--paper")
    assert found["single_node_slowdown_published"] == pytest.approx(2.0994, abs=1e-4)
    modelled = found["rows"][-1]["slowdown_modelled_worst_rank"]
    assert 1.5 < modelled < 2.0995
    # As printed: abstract ('up to 3X') and section VII-B ('330% increase').
    assert [each["slowdown"] for each in found["readings"]] == pytest.approx([3.0, 3.3, 4.3])
    for reading, excess in zip(found["readings"], (2.0, 2.3, 3.3), strict=True):
        assert reading["explained_share_of_excess"] == pytest.approx((modelled - 1) / excess)
    assert [row["writers_published"] for row in found["rows"][6:]] == [0, 1, 2, 5, 15, 42]
    assert found["rows"][6]["slowdown_modelled_worst_rank"] == 1.0
    text = " ".join(command("simulate", "--paper").split())
    for reading in found["readings"]:
        assert f"{100 * reading['explained_share_of_excess']:.1f} % of the excess" in text


# `nimc writers`


def test_paper_says_that_the_fdr_column_does_not_follow_from_its_inputs(command: Command) -> None:
    text = command("writers", "--paper")
    assert "does not follow: writers at a time, write of 0.5 s as stated" in text
    assert "effective write of 0.784 s" in text


def test_systems_beyond_the_range_of_the_series_are_named(command: Command) -> None:
    # Ranks of 100 s: 50 of them fail every 2 s, so that a write of 4 s is twice that, and no less.
    asked = ("--ranks", "49,50", "--mtti", "100s", "--write", "4s")
    inside, beyond = command.json("writers", *asked)["rows"]
    assert (inside["in_range"], beyond["in_range"]) == (True, False)
    assert beyond["interval_s"] == 2.0
    assert command("writers", *asked).endswith("is set to that time: ranks 50\n")
