"""A test that runs the check lammps_scaling on a minicluster.

LAMMPS runs on two nodes, and one writer runs on the third node.
"""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from conductor.injectors import INJECTORS
from tests.nimc.minicluster.driven import ENV, Cluster
from tests.reframe_tests.reframe_call import reframe, samples_of, succeeded
from tests.undisturbed import VARIABLES

pytestmark = pytest.mark.minicluster

#: All nodes of the minicluster share the processors of this host, so a write may be very late.
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


def test_the_writer_writes_at_the_planned_times(three_nodes: Cluster, tmp_path: Path) -> None:
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
    # For a write near the edge of the measured window, the planned time may lie within the window
    # and the real time outside, or the reverse.
    assert abs(table["done"] - table["planned"]) <= 2
    assert table["missing_share"] <= 0.25
    assert table["unplanned"] == 0
    assert table["bytes_b"] == table["done"] * table["messages"] * 65536
    assert table["clock_error_s"] < 0.1
    (writer,) = kept["writers"]
    assert (writer["origin"], writer["transport"]) == ("node3", "tcp")
    # A file beside the logs has the complete timetable: all planned writes and all real writes.
    name = f"{kept['pair']}-daly-{kept['attempt']}.writes.json"
    full = json.loads((tmp_path / "run/logs/lammps_scaling/0" / name).read_text())
    hits = full["timetable"]["hits"]
    assert all(a != b for a, b in pairwise(hits))  # the writer alternates between both targets
