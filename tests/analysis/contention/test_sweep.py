"""Sweep files."""

import json

import pytest

from analysis.contention.sweep import Point, load
from nimc.base.errors import InputError

POINTS = [Point(1, 0, 0, 5e9, 4e9, 5e9, 4e9), Point(2, 1, 1, 1e10, None, 9e9, 3.5e9)]

#: One point, as JSON has it.
POINT = [{"n": 2, "comp_node": 0, "comm_node": 0}]


def test_csv_and_json_agree(tmp_path):
    (tmp_path / "a.csv").write_text(
        "n,comp_node,comm_node,comp_alone_b_s,comm_alone_b_s,comp_par_b_s,comm_par_b_s\n"
        "1,0,0,5e9,4e9,5e9,4e9\n"
        "2,1,1,1e10,,9e9,3500000000\n"
    )
    from_csv = load(tmp_path / "a.csv", {"cores": 16, "numa_per_socket": None, "numa_nodes": None})
    assert from_csv.points == POINTS
    assert (from_csv.name, from_csv.cores, from_csv.numa_per_socket, from_csv.numa_nodes) == (
        "a",
        16,
        1,
        2,
    )
    (tmp_path / "b.json").write_text(json.dumps(from_csv.as_dict()))
    assert load(tmp_path / "b.json") == from_csv


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n,comp_node,comm_node\n", "points: a list found; allowed: at least 1"),
        ("n,comp_node,comm_node\n0,0,0\n", r"points\.0\.n: '0' found; allowed: greater than or"),
        ("n,comp_node\n1,0\n", r"points\.0\.comm_node: missing"),
        ("n,comp_node,comm_node,speed\n1,0,0,3\n", r"points\.0\.speed: unknown key"),
        ("n,comp\tnode\n1,0\n", r"points\.0\.comp_node: missing"),
        ("n,comp_node,comm_node\n1,0,0,3e9\n", "cells beyond the header"),
        ("n,comp_node,comm_node,comp_par_b_s\n1,0,0,-3\n", "comp_par_b_s: '.*' found; allowed: "),
        ("n,comp_node,comm_node,comp_par_b_s\n1,0,0,nan\n", "comp_par_b_s: '.*' found; allowed: "),
        ("n,comp_node,comm_node,comp_par_b_s\n1,0,0,1e31\n", "comp_par_b_s: '.*' found; allowed: "),
    ],
)
def test_mistakes_csv(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not a sweep"),
        ({"schema": 1, "points": [1]}, r"points\.0: 1 found; allowed: a mapping"),
        ({"schema": 1, "points": [{}], "notes": 3}, "notes: 3 found; allowed: a list"),
        (
            {"schema": 1, "cores": 1, "points": [{"n": 2, "comp_node": 0, "comm_node": 0}]},
            r"points\.0\.n: 2 found; allowed: at most 1",
        ),
        (
            {"schema": 1, "numa_nodes": 1, "points": [{"n": 2, "comp_node": 1, "comm_node": 0}]},
            "nodes 1 and 0 found; allowed: below 1",
        ),
        (
            {"schema": 1, "cores": "x", "points": [{"n": 2, "comp_node": 1, "comm_node": 0}]},
            "cores",
        ),
        ({"schema": 1, "groups": 0, "points": POINT}, "groups: 0 found; allowed: greater than or"),
        (
            {"schema": 1, "cores": 6, "groups": 4, "points": POINT},
            "groups: 4 cores must divide the socket's 6",
        ),
        ({"schema": 1, "order": "random", "points": POINT}, "order: 'random' found; allowed:"),
    ],
)
def test_mistakes_json(tmp_path, document, message):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        load(path)


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_not_text(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=rf"{name}: "):
        load(path)


def test_not_json(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text("{")
    with pytest.raises(InputError, match="bad"):
        load(path)
