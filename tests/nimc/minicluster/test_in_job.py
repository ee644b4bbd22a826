"""`nimc doctor --in-job` where origins are in a heterogeneous job."""

import json
from pathlib import Path

import pytest

from nimc.run.session import LOOK
from tests.nimc.minicluster.real import Cluster


@pytest.mark.minicluster
@pytest.mark.slow
def test_a_step_of_both_components_looks_at_target_and_origin(
    two_nodes: Cluster, tmp_path: Path
) -> None:
    words = ["doctor", "--machine", "minicluster", "--in-job", "--json"]
    started = two_nodes.start(*words, "--results", tmp_path / "new" / "my results")
    out, _ = started.communicate(timeout=300)
    found = {each["what"]: each for each in json.loads(out)["findings"]}
    assert started.returncode == 0, [each for each in found.values() if each["state"] != "ok"]
    assert found["job on nodes"]["detail"].endswith("target node1, origins node2")
    assert found["locks"]["detail"].startswith("node1, node2: see the lock of this host")
    for what in ("shared folders", "interface on nodes", "device eth0 on nodes"):
        assert found[what]["state"] == "ok"
    # Over tcp the target's interface counts, so a sample would be proven.
    for what in ("writes by ucx", "reads by ucx"):
        assert found[what]["state"] == "ok"
        assert "over tcp, 1 queue pair; counted: " in found[what]["detail"]
        assert "at the target by net:eth0" in found[what]["detail"]
        assert "proof: device" in found[what]["detail"]
    assert not list(tmp_path.rglob(f"{LOOK}*"))
    assert two_nodes.slurm("squeue", "--noheader") == ""
