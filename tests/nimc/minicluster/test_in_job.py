"""`nimc doctor --in-job` with origins in the second component of a heterogeneous job."""

import json
from pathlib import Path

import pytest

from nimc.run.session import LOOK_FOLDER_PREFIX
from tests.nimc.minicluster.driven import Cluster


@pytest.mark.minicluster
@pytest.mark.slow
def test_a_step_of_both_components_looks_at_target_and_origin(
    two_nodes: Cluster, tmp_path: Path
) -> None:
    words = ["doctor", "--machine", "minicluster", "--in-job", "--json"]
    started = two_nodes.start(*words, "--results", tmp_path / "new" / "my results")
    out, _ = started.communicate(timeout=300)
    by_subject = {finding["what"]: finding for finding in json.loads(out)["findings"]}
    assert started.returncode == 0, [
        finding for finding in by_subject.values() if finding["state"] != "ok"
    ]
    assert by_subject["job on nodes"]["detail"].endswith("target node1, origins node2")
    assert by_subject["locks"]["detail"].startswith("node1, node2: see the lock of this host")
    for subject in ("shared folders", "interface on nodes", "device eth0 on nodes"):
        assert by_subject[subject]["state"] == "ok"
    # Over tcp the target's interface counts the bytes, so writes are proven. Other programs on this
    # host, or other guests of its hypervisor, may disturb the target; then a run would be rejected.
    for subject in ("writes by ucx", "reads by ucx"):
        state, detail = by_subject[subject]["state"], by_subject[subject]["detail"]
        assert state == "ok" or detail.startswith("a run would be rejected: node1: "), detail
        assert "over tcp, 1 queue pair; counted: " in detail
        assert "at the target by net:eth0" in detail
        assert "proof: device" in detail
    assert not list(tmp_path.rglob(f"{LOOK_FOLDER_PREFIX}*"))
    assert two_nodes.slurm("squeue", "--noheader") == ""
