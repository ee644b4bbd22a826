"""The parser of membench's latency, on captured runs."""

from pathlib import Path

import pytest

from nimc.node.readers import FomError
from reframe_tests.workload import load

CAPTURES = Path(__file__).parents[2] / "captures" / "latency"
parse = load("latency").parse


def test_alone():
    fom = parse((CAPTURES / "alone.txt").read_text())
    assert fom.value == 8.326291e-07
    assert fom.extra == {
        "cores": 1,
        "arrays": 1,
        "array_b": 128 * 2**20,
        "window_s": 0.985,
        "streaming": 0,
        "huge_b": 128 * 2**20,
        "memory_b": 128 * 2**20,
        "least_s": 1.578412e-07,
        "load_cores": 0,
        "load_b_s": 0,
    }


@pytest.mark.parametrize(
    ("name", "value", "load_b_s", "more"),
    [
        (
            *("nt_write-1-node0", 2.592473e-06, 4.274445e9),
            {"node": 0, "huge_b": 0, "memory_b": 2**28},
        ),
        ("one-core-loads", 3.654969e-06, 1.642549e9, {}),
    ],
)
def test_next_to_a_load(name, value, load_b_s, more):
    fom = parse((CAPTURES / f"{name}.txt").read_text())
    assert fom.value == value
    expected = {"cores": 1, "load_cores": 1, "load_b_s": load_b_s, **more}
    assert {key: fom.extra[key] for key in expected} == expected


def test_a_run_that_was_killed():
    with pytest.raises(FomError, match="FOM"):
        parse((CAPTURES / "killed.txt").read_text())


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        ("results are right", "", "check of the results"),
        ("load nt_write:", "loaded:", "line of the load's rate"),
        ("load nt_write: 4.274445e+09", "load nt_write: 0", "rate of the load is 0"),
        ("FOM latency: 2.592473e-06", "FOM latency: 0.0", "the time of a load is 0"),
        ("fastest iteration: 2.4", "fastest iteration: -2.4", "latency of an iteration"),
    ],
)
def test_no_proof_no_figure(old, new, missing):
    text = (CAPTURES / "nt_write-1-node0.txt").read_text()
    assert old in text
    with pytest.raises(FomError, match=missing):
        parse(text.replace(old, new))
