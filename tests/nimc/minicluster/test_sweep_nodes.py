"""`nimc sweep-nodes` on a real Slurm, stopped on the way."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nimc.minicluster.real import Cluster, cluster_of, wait

CAMPAIGN = """
name: tiny
workloads: [{check: stream, set: {iterations: 10, array_most: 64MiB}, expect: 2s}]
arms: [off, aa]
pairs: {floor: 6, cap: 6}
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
    first = cluster.start(*words)

    def one_job_at_a_time() -> bool:
        queued = cluster.slurm("squeue", "--noheader", "--format=%i").split()
        assert len({job.partition("+")[0] for job in queued}) <= 1
        return bool(list(tmp_path.glob("*/node1/*/samples/stream.jsonl")))

    wait(first, one_job_at_a_time, 300)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=300)
    assert first.returncode == 128 + signal.SIGTERM
    assert cluster.slurm("squeue", "--noheader") == ""

    second = cluster.start(*words)
    out, err = second.communicate(timeout=600)
    assert second.returncode in (0, 1), err
    document = json.loads(out)
    (folder,) = tmp_path.glob("tiny-minicluster-nodes-*")
    assert document["sweep"] == str(folder)
    assert {row["node"]: row["runs"] for row in document["nodes"]} == {"node1": 6, "node2": 6}
    for node in ("node1", "node2"):
        (samples,) = folder.glob(f"{node}/tiny-*/samples/stream.jsonl")
        ran_on = {tuple(json.loads(line)["nodes"]) for line in samples.read_text().splitlines()}
        assert ran_on == {(node,)}
