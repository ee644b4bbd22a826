"""A whole campaign on a real Slurm, whose ReFrame is killed on the way."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from nimc.machine import slurm
from tests.nimc.minicluster.real import Cluster, wait

CAMPAIGN = """
name: tiny
title: LAMMPS, as short as can be
workloads: [{check: lammps, set: {steps: 100}, expect: 3s}]
arms: [off, on]
pairs: {floor: 6}
verify: {min_share: 0.001, foreign_cpus: null, steal_share: null, frequency_drop: null}
run_timeout: 1min
"""
BY_REFRAME = Path(sys.executable).parent / "reframe"


def test_jobs_are_known_by_where_they_work() -> None:
    # As squeue of Slurm 22.05 prints it: a line for each component of a job.
    listed = (
        "7|R|x|None|/r/tiny/logs/a/0/reframe/stage\n7|R|x|None|/r/tiny/logs/a/0/reframe/stage\n"
        "8|R|x|None|/r/tiny-2/logs/a/0\n9|R|x|None|/home/me/my results\n"
    )
    assert list(slurm.working_in(Path("/r/tiny"), listed)) == ["7"]
    assert list(slurm.working_in(Path("/home/me"), listed)) == ["9"]


@pytest.mark.minicluster
@pytest.mark.slow
def test_a_killed_reframe_leaves_no_job_and_the_campaign_goes_on(
    two_nodes: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "tiny.yaml").write_text(CAMPAIGN)
    words = ["run", tmp_path / "tiny.yaml", "--machine", "minicluster", "--results", tmp_path]
    first = two_nodes.start(*words, "--json")
    wait(first, lambda: list(tmp_path.glob("tiny-*/samples/lammps.jsonl")), 90)
    (samples,) = tmp_path.glob("tiny-*/samples/lammps.jsonl")
    os.kill(_reframe(first.pid), signal.SIGKILL)
    _, said = first.communicate(timeout=120)
    assert first.returncode == 3
    assert "ReFrame was killed by SIGKILL" in said
    assert two_nodes.slurm("squeue", "--noheader") == ""
    before = samples.read_text()

    second = two_nodes.start(*words, "--json")
    out, err = second.communicate(timeout=240)
    assert second.returncode == 0, err
    assert samples.read_text().startswith(before)
    (row,) = json.loads(out)["results"]
    assert (row["workload"], row["arm"]) == ("lammps", "on")
    assert row["pairs"] >= 6
    assert row["writer_rate_b_s"] > 0


def _reframe(nimc: int) -> int:
    """The ReFrame session of a `nimc` process."""
    children = Path(f"/proc/{nimc}/task/{nimc}/children").read_text().split()
    (found,) = (
        int(child)
        for child in children
        if str(BY_REFRAME) in Path(f"/proc/{child}/cmdline").read_text()
    )
    return found
