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
    size = (from_csv.cores, from_csv.numa_per_socket, from_csv.numa_nodes)
    assert (from_csv.name, *size) == ("a", 16, 1, 2)
    (tmp_path / "b.json").write_text(json.dumps(from_csv.as_dict()))
    assert load(tmp_path / "b.json") == from_csv


HEADER = "n,comp_node,comm_node"
RATE = "comp_par_b_s: '.*' found; allowed: "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{HEADER}\n", "points: a list found; allowed: at least 1"),
        (f"{HEADER}\n0,0,0\n", r"points\.0\.n: '0' found; allowed: greater than or equal to 1"),
        ("n,comp_node\n1,0\n", r"points\.0\.comm_node: missing"),
        (f"{HEADER},speed\n1,0,0,3\n", r"points\.0\.speed: unknown key"),
        ("n,comp\tnode\n1,0\n", r"points\.0\.comp_node: missing"),
        (f"{HEADER}\n1,0,0,3e9\n", "cells beyond the header"),
        *((f"{HEADER},comp_par_b_s\n1,0,0,{rate}\n", RATE) for rate in ("-3", "nan", "1e31")),
        (b"\xff\xfe\x00", r"bad\.csv: "),
        ([], "not a sweep"),
        ({"points": [1]}, r"points\.0: 1 found; allowed: a mapping"),
        ({"points": [{}], "notes": 3}, "notes: 3 found; allowed: a list"),
        ({"cores": 1, "points": POINT}, r"points\.0\.n: 2 found; allowed: at most 1"),
        (
            {"numa_nodes": 1, "points": [{"n": 2, "comp_node": 1, "comm_node": 0}]},
            "nodes 1 and 0 found; allowed: below 1",
        ),
        ({"cores": "x", "points": POINT}, "cores"),
        ({"groups": 0, "points": POINT}, "groups: 0 found; allowed: greater than or equal to 1"),
        ({"cores": 6, "groups": 4, "points": POINT}, "groups: 4 cores must divide the socket's 6"),
        ({"order": "random", "points": POINT}, "order: 'random' found; allowed: 'compact' or"),
    ],
)
def test_mistakes(tmp_path, content, message):
    """Text is CSV, a dictionary JSON of schema 1."""
    path = tmp_path / ("bad.json" if isinstance(content, list | dict) else "bad.csv")
    if isinstance(content, dict):
        content = {"schema": 1, **content}
    text = json.dumps(content) if path.suffix == ".json" else content
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message):
        load(path)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00"])
def test_what_is_no_json(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.json: "):
        load(path)
