"""What changed at the same time, and the worst node."""

from __future__ import annotations

import json

import pytest

from analysis.history.alarms import changed_facts, facts_of, worst_node
from tests.analysis.history.nights_table import runs_table


def made(**facts: str) -> dict[str, str]:
    return {"kernel": "5.14", "mpi": "4.1", **facts}


def test_facts_that_changed_between_before_and_since() -> None:
    facts = {
        "a": made(firmware="20.1"),
        "b": made(firmware="20.1"),
        "c": made(kernel="5.15", firmware="20.1"),
        "d": made(kernel="5.15"),
    }
    found = changed_facts(facts, ["a", "b"], ["c", "d"])
    # d is the latest of two equally frequent values of the firmware: not recorded.
    assert [(f.name, f.before, f.after) for f in found] == [
        ("firmware", "20.1", None),
        ("kernel", "5.14", "5.15"),
    ]


def test_one_odd_run_hides_nothing_and_shows_nothing() -> None:
    facts = {name: made() for name in "abcdef"}
    facts["b"] = made(mpi="5.0")
    facts |= {name: made(kernel="6.1") for name in "xyz"}
    facts["y"] = made(kernel="6.1", mpi="5.0")
    found = changed_facts(facts, list("abcdef"), list("xyz"))
    assert [(f.name, f.before, f.after) for f in found] == [("kernel", "5.14", "6.1")]


def test_runs_that_nothing_is_known_of_change_nothing() -> None:
    assert changed_facts({"a": made()}, ["a"], ["b"]) == []


def test_facts_are_those_of_the_run_and_its_nodes() -> None:
    runs = runs_table({"a": json.dumps(made()), "b": ""}, nodes="n1,n2")
    assert facts_of(runs) == {"a": made(nodes="n1,n2"), "b": {"nodes": "n1,n2"}}


@pytest.mark.parametrize("text", ["[", "[1]", "[" * 100_000])
def test_facts_that_cannot_be_read_are_none(text: str) -> None:
    assert facts_of(runs_table({"a": text})) == {"a": {"nodes": "n1"}}


def test_the_worst_node_against_the_median_of_the_others() -> None:
    worse = [0.0, 0.02, 0.04, 0.30, 0.32]
    nodes = [["n1"], ["n2"], ["n3"], ["n4"], ["n4"]]
    found = worst_node(worse, nodes)
    assert found is not None
    # n4: median 0.31; the others' median 0.02: exp(0.29) = 1.3364.
    assert (found.node, found.nights) == ("n4", 2)
    assert found.ratio == pytest.approx(1.33643, abs=1e-5)


def test_nights_on_the_same_nodes_have_no_worst_one() -> None:
    assert worst_node([0.0, 1.0], [["n1", "n2"], ["n1", "n2"]]) is None
    assert worst_node([0.0, 1.0], [[], []]) is None
