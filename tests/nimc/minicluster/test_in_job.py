"""`nimc doctor --in-job` where origins are in a heterogeneous job."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nimc.cluster.node_job import PREFIX
from nimc.run.session import NIMC
from tests.nimc.minicluster.real import ENV, Cluster, cluster_of


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield from cluster_of(2)


@pytest.mark.minicluster
@pytest.mark.slow
def test_a_step_of_both_components_looks_at_target_and_origin(
    cluster: Cluster, tmp_path: Path
) -> None:
    words = ["doctor", "--machine", "minicluster", "--in-job", "--json"]
    done = subprocess.run(
        [*NIMC, *words, "--results", str(tmp_path / "new" / "my results")],
        env={**ENV, "NIMC_MINICLUSTER": str(cluster.state)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = {each["what"]: each for each in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0, [each for each in found.values() if each["state"] != "ok"]
    assert found["heterogeneous job"]["state"] == "ok"
    assert found["job on nodes"]["detail"].endswith("target node1, origins node2")
    assert found["locks"]["detail"].startswith("node2 sees the lock of node1")
    for what in (
        "partition compute",
        "shared folders",
        "interface on nodes",
        "eth0 on nodes",
    ):
        assert found[what]["state"] == "ok"
    assert not list(tmp_path.rglob(f"{PREFIX}*"))
    assert not (tmp_path / "new").exists()
    assert cluster.slurm("squeue", "--noheader") == ""
