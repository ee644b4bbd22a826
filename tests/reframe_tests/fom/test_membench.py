"""The parser of membench, on captured runs."""

import re
from pathlib import Path

import pytest

from nimc.node.readers import FomError
from reframe_tests.workload import load

CAPTURES = Path(__file__).parents[2] / "captures" / "membench"
parse = load("membench").parse


@pytest.mark.parametrize(
    ("name", "cores", "arrays", "array_b", "node"),
    [
        ("triad-1.txt", 1, 3, 44739072, None),
        ("one-array.txt", 1, 1, 32 * 2**20, None),
        ("nt_write-2-node0.txt", 2, 1, 64 * 2**20, 0),
    ],
)
def test_real_outputs(name, cores, arrays, array_b, node):
    text = (CAPTURES / name).read_text()
    fom = parse(text)
    assert f"{fom.value:.6e} B/s" in text
    assert fom.value > 1e8
    assert fom.extra["cores"] == cores
    assert fom.extra["streaming"] == 1
    assert fom.extra["arrays"] == arrays
    assert fom.extra["array_b"] == array_b
    assert fom.extra.get("node") == node
    assert 0 < fom.extra["window_s"] < 0.35


def test_operations_per_element():
    fom = parse((CAPTURES.parent / "intensity" / "16.txt").read_text())
    assert fom.value == 9.972882e9
    assert fom.extra["flops_per_element"] == 16
    assert (fom.extra["huge_b"], fom.extra["memory_b"]) == (0, 6 * 44740608)


@pytest.mark.parametrize("name", ["no-node.txt", "killed.txt"])
def test_failures(name):
    with pytest.raises(FomError, match="FOM"):
        parse((CAPTURES / name).read_text())


def test_stores_through_the_caches_are_reported():
    text = (CAPTURES / "nt_write-2-node0.txt").read_text()
    assert parse(text.replace("streaming stores", "cached stores")).extra["streaming"] == 0


@pytest.mark.parametrize(
    ("pattern", "new", "missing"),
    [
        ("results are right", "", "check of the results"),
        (
            r"FOM triad: \S+",
            "FOM triad: 0.000000e+00",
            "the bandwidth while all cores are busy is 0",
        ),
    ],
)
def test_no_proof_no_figure(pattern, new, missing):
    text, changes = re.subn(pattern, new, (CAPTURES / "triad-1.txt").read_text())
    assert changes == 1
    with pytest.raises(FomError, match=missing):
        parse(text)
