"""`nimc doctor --in-job` with origins in the second component of a heterogeneous job."""

import json
from pathlib import Path

import pytest

from nimc.run.session import INSPECTION_FOLDER_PREFIX
from tests.nimc.minicluster.driven import ENV, Cluster
from tests.reframe_tests.reframe_call import script

#: A stand-in for `mpi_put` whose ranks end at once.
_FAILING_MPI_PUT = """case $1 in --launcher) echo srun;; *) echo no more flux >&2; exit 7;; esac"""


@pytest.mark.minicluster
@pytest.mark.slow
def test_a_step_of_both_components_inspects_target_and_origin(
    two_nodes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the injectors does not work. The machine does not need it, so it is ready."""
    programs = script(tmp_path / "bin" / "mpi_put", _FAILING_MPI_PUT).parent
    monkeypatch.setitem(ENV, "PATH", f"{programs}:{ENV['PATH']}")
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
    failed = by_subject["writes by mpi_put"]
    assert failed["state"] == "limited"
    assert "no more flux" in failed["detail"]
    assert not list(tmp_path.rglob(f"{INSPECTION_FOLDER_PREFIX}*"))
    assert two_nodes.slurm("squeue", "--noheader") == ""
