"""`nimc sweep-nodes` on a real Slurm, stopped on the way."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nimc.minicluster.real import ENV, Cluster, cluster_of

CAMPAIGN = """
name: tiny
workloads: [{check: stream, set: {iterations: 10, array_most: 64MiB}, expect: 2s}]
arms: [off, aa]
pairs: {floor: 6}
verify: {foreign_cpus: null, steal_share: null, frequency_drop: null, foreign_share: null}
run_timeout: 1min
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield from cluster_of(3)


@pytest.mark.minicluster
@pytest.mark.long
def test_every_node_is_measured_on_itself_with_one_job_at_a_time(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "tiny.yaml").write_text(CAMPAIGN)
    words = ["sweep-nodes", tmp_path / "tiny.yaml", "--machine", "minicluster", "--jobs", "1"]
    words += ["--results", tmp_path, "--json"]
    command = [sys.executable, "-c", "from nimc.cli.main import main; main()", *words]
    env = {
        **ENV,
        "NIMC_MINICLUSTER": str(cluster.state),
        "SLURM_CONF": str(cluster.layout.slurm_conf),
    }
    first = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("*/node1/*/samples/stream.jsonl")):
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < deadline
        queued = cluster.slurm("squeue", "--noheader", "--format=%i").split()
        assert len({job.partition("+")[0] for job in queued}) <= 1
        time.sleep(0.2)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=120)
    assert first.returncode == 128 + signal.SIGTERM
    assert cluster.slurm("squeue", "--noheader") == ""

    second = subprocess.run(command, env=env, capture_output=True, text=True, timeout=400)
    assert second.returncode in (0, 1), second.stderr
    document = json.loads(second.stdout)
    (folder,) = tmp_path.glob("tiny-minicluster-nodes-*")
    assert document["sweep"] == str(folder)
    assert {row["node"]: row["runs"] for row in document["nodes"]} == {"node1": 6, "node2": 6}
    for node in ("node1", "node2"):
        (samples,) = folder.glob(f"{node}/tiny-*/samples/stream.jsonl")
        ran_on = {tuple(json.loads(line)["nodes"]) for line in samples.read_text().splitlines()}
        assert ran_on == {(node,)}
