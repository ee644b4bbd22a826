"""The scaling check for real: LAMMPS on two nodes of a minicluster, one writer on a third."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from conductor.injectors import INJECTORS
from tests.nimc.minicluster.driven import ENV, Cluster
from tests.reframe_tests.reframe_call import reframe, samples_of, succeeded
from tests.undisturbed import VARIABLES

pytestmark = pytest.mark.minicluster

#: All nodes share the processors of this host, so that a write may be slow by much.
SETTINGS = {
    "nodes": 2,
    "steps": 150,
    "arms": "off,daly",
    "pairs": 1,
    "warmups": 0,
    "retries": 3,
    "writers": "daly:1",
    "write": "0.4s",
    "fill": 0.1,
    "tolerance_s": 1.0,
    "allowed_share": 0.25,
    "run_timeout_s": 300,
    **VARIABLES,
}


def test_writes_are_done_as_planned(three_nodes: Cluster, tmp_path: Path) -> None:
    if missing := INJECTORS["ucx"].why_missing():
        pytest.skip(missing)
    variables = {**SETTINGS, "nimc_dir": tmp_path / "run"}
    state = {**ENV, "NIMC_MINICLUSTER": str(three_nodes.state)}
    succeeded(reframe(tmp_path, "minicluster", "lammps_scaling", "-r", settings=variables, **state))
    samples = samples_of(tmp_path / "run", "lammps_scaling")
    all_kept = [sample for sample in samples if sample["outcome"] == "accepted"]
    assert {sample["fom_extra"]["ranks"] for sample in all_kept} == {2.0}
    (kept,) = (sample for sample in all_kept if sample["arm"] == "daly")
    assert set(kept["nodes"]).isdisjoint(kept["origin_nodes"])
    table = kept["timetable"]
    assert table["planned"] >= 3
    # A write at the window's edge may lie within it by plan alone, or in truth alone.
    assert abs(table["done"] - table["planned"]) <= 2
    assert table["missing_share"] <= 0.25
    assert table["unplanned"] == 0
    assert table["bytes_b"] == table["done"] * table["messages"] * 65536
    assert table["clock_error_s"] < 0.1
    (writer,) = kept["writers"]
    assert (writer["origin"], writer["transport"]) == ("node3", "tcp")
    # What was planned and what was done stand in full beside the logs.
    name = f"{kept['pair']}-daly-{kept['attempt']}.writes.json"
    full = json.loads((tmp_path / "run/logs/lammps_scaling/0" / name).read_text())
    hits = full["timetable"]["hits"]
    assert all(a != b for a, b in pairwise(hits))  # two targets take turns
