"""The parser of membench's latency, on captured runs."""

from pathlib import Path

import pytest

from nimc.node.readers import FomError
from reframe_tests.latency import parse

CAPTURES = Path(__file__).parents[2] / "captures" / "latency"


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


def test_next_to_a_load():
    fom = parse((CAPTURES / "nt_write-1-node0.txt").read_text())
    assert fom.value == 2.592473e-06
    assert fom.extra["node"] == 0
    assert (fom.extra["cores"], fom.extra["load_cores"]) == (1, 1)
    assert fom.extra["load_b_s"] == 4.274445e9
    assert (fom.extra["huge_b"], fom.extra["memory_b"]) == (0, 256 * 2**20)


def test_one_core_loads():
    fom = parse((CAPTURES / "one-core-loads.txt").read_text())
    assert (fom.value, fom.extra["load_b_s"]) == (3.654969e-06, 1.642549e9)
    assert (fom.extra["cores"], fom.extra["load_cores"]) == (1, 1)


def test_a_run_that_was_killed():
    with pytest.raises(FomError, match="FOM"):
        parse((CAPTURES / "killed.txt").read_text())


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        ("results are right", "", "check of the results"),
        ("load nt_write:", "loaded:", "line of the load's rate"),
        ("load nt_write: 4.274445e+09", "load nt_write: 0", "rate of the load is 0"),
        ("FOM latency: 2.592473e-06", "FOM latency: 0.0", "latency is 0"),
        ("fastest iteration: 2.4", "fastest iteration: -2.4", "latency of an iteration"),
    ],
)
def test_no_proof_no_figure(old, new, missing):
    text = (CAPTURES / "nt_write-1-node0.txt").read_text()
    assert old in text
    with pytest.raises(FomError, match=missing):
        parse(text.replace(old, new))
