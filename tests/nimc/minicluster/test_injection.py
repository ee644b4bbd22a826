"""`nimc inject` between two nodes, in an existing allocation and in a job that it submits."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.nimc.minicluster.driven import NIMC, Cluster

pytestmark = [pytest.mark.minicluster, pytest.mark.slow]


def assert_proven(path: Path, length_s: float) -> dict[str, Any]:
    """Return the record of an injection, which must be proven.

    node2 writes to node1 for at least `length_s`, and node1's interface counts the bytes.
    """
    document: dict[str, Any] = json.loads(path.read_bytes())
    assert (document["proven"], document["targets"], document["origins"]) == (
        True,
        ["node1"],
        ["node2"],
    )
    assert document["end_s"] - document["start_s"] >= length_s
    for reading in document["readings"]:
        (writer,) = reading["writers"]
        assert (writer["proof"], writer["counter"]) == ("device", "net:eth0")
        # The interface also counts headers, and bytes before and after the rows.
        assert writer["counted_b"] > 0.8 * sum(row["bytes_b"] for row in reading["rows"])
        assert reading["rows"]
    return document


def test_in_a_job_that_it_submits(two_nodes: Cluster, tmp_path: Path) -> None:
    command = ["sh", "-c", "echo on $(hostname); echo no >&2; sleep 3; exit 7"]
    words = ["inject", "--machine", "minicluster", "--results", tmp_path, "-o", tmp_path / "r.json"]
    started = two_nodes.start(*words, "--", *command)
    out, err = started.communicate(timeout=300)
    assert (started.returncode, out) == (7, "on node1\n"), err
    assert "\nno\n" in err
    document = assert_proven(tmp_path / "r.json", 3.0)
    assert (document["ended_by"], document["exit_status"]) == ("command", 7)
    assert two_nodes.slurm("squeue", "--noheader") == ""
    assert not list(tmp_path.glob(".nimc*"))


def test_in_an_allocation_beside_a_step(two_nodes: Cluster, tmp_path: Path) -> None:
    """The command starts a job step on the target, as it would without `nimc inject`."""
    step = ["srun", "-N1", "-n1", "-w", "node1", "sh", "-c", "hostname; sleep 2"]
    calls = [
        ["-o", "r.json", "--to", "node1", "--from", "node2", "--", *step],
        ["--to", "node2", "--from", "node9", "--", "true"],
    ]
    lines = ["#!/bin/sh", "#SBATCH --nodes=2 --partition=all", f"cd {tmp_path}", "exec 2>&1"]
    for words in calls:
        inject = [*NIMC[:-1], "inject", "--machine", "minicluster", *words]
        lines += [shlex.join(inject), "echo status $?"]
    script = tmp_path / "job.sh"
    script.write_text("\n".join(lines) + "\n")
    two_nodes.run_job(script, tmp_path / "out")
    out = (tmp_path / "out").read_text()
    assert "node1\n" in out
    assert "status 0\n" in out, out
    assert "nimc: --from: node9 found; allowed: nodes of the job: node1, node2\nstatus 2\n" in out
    assert_proven(tmp_path / "r.json", 2.0)
