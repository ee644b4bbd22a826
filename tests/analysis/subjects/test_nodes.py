"""A case that ran on several nodes, block by block: a slowdown for each of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.questions.question import answer
from analysis.report.data import load_run
from analysis.subjects.nodes import NODES
from tests.analysis.synthetic import LAMMPS, STREAM, samples, write_run

#: Node -> its slowdown, one block each.
SLOWDOWNS = {"n10": 1.2, "n2": 1.5}


def made(folder: Path) -> Path:
    """STREAM on two nodes; LAMMPS on one, and on both at once."""
    runs = samples(LAMMPS, pairs=6)
    runs += [replace(run, nodes=["n2", "n10"]) for run in samples(replace(LAMMPS, name="both"))]
    for block, (node, slowdown) in enumerate(SLOWDOWNS.items()):
        effects = {"on": slowdown, "aa": 1.0}
        case = replace(STREAM, effects=effects, noise=0.0, pair_noise=0.0)
        runs += [
            replace(run, block=block, nodes=[node], key=run.key.replace("/0/", f"/{block}/", 1))
            for run in samples(case, pairs=6)
        ]
    return write_run(folder / "run", runs)


def test_each_node_has_its_slowdown(tmp_path: Path) -> None:
    """Without noise the rate is 14.2 GB/s without writes; node 2 comes before node 10."""
    rows = answer(NODES, load_run(made(tmp_path), force=True)).to_dicts()
    assert [(row["case"], row["arm"], row["node"], row["n"]) for row in rows] == [
        ("stream", "on", "n2", 6),
        ("stream", "on", "n10", 6),
    ]
    for row in rows:
        slowdown = SLOWDOWNS[row["node"]]
        assert row["slowdown"] == pytest.approx(slowdown)
        assert (row["off"], row["on"]) == (pytest.approx(14.2e9), pytest.approx(14.2e9 / slowdown))
