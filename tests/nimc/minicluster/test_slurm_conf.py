"""Slurm's files as rendered, read back the way Slurm reads them: lines of KEY=VALUE."""

from pathlib import Path

from testbed.containers import Kind
from testbed.daemons import Hardware, render_slurm_conf
from testbed.spec import ClusterLayout, Spec

LAYOUT = ClusterLayout(Path("/tmp/mc"))


def rendered(spec: Spec, cgroup: Kind = "v1") -> dict[str, str]:
    return render_slurm_conf(spec, LAYOUT, "10.77.5", Hardware(2, 900, cgroup), this_host="desk")


def settings(text: str) -> dict[str, str]:
    lines = [x for x in text.splitlines() if x and not x.startswith(("#", "NodeN", "PartitionN"))]
    pairs = [line.partition("=")[::2] for line in lines]
    assert len({key for key, _ in pairs}) == len(pairs), "a key stands twice"
    return dict(pairs)


def test_what_campaigns_rely_on() -> None:
    conf = settings(rendered(Spec("veth", nodes=2, origins=1))["slurm.conf"])
    assert conf["JobRequeue"] == "0"
    assert conf["ProctrackType"] == "proctrack/cgroup"
    assert conf["PropagateResourceLimits"] == "NONE"
    assert conf["AccountingStorageType"] == "accounting_storage/slurmdbd"
    # slurmctld reaches slurmdbd through the munge socket named here.
    assert conf["AccountingStoragePass"] == "/tmp/mc/munge/munge.sock"
    assert conf["SlurmctldHost"] == "control(10.77.5.254)"
    assert int(conf["SlurmdTimeout"]) <= 30
    # Process tracking follows the host.
    spec = Spec("veth", nodes=2, origins=1)
    assert "proctrack/linuxproc" in rendered(spec, "none")["slurm.conf"]
    assert "CgroupPlugin=cgroup/v1" in rendered(spec, "v1")["cgroup.conf"]
    v2 = rendered(spec, "v2")["cgroup.conf"]
    assert "CgroupPlugin=cgroup/v2" in v2
    assert "IgnoreSystemd=yes" in v2


def test_virtual_machines_keep_sockets_off_the_shared_folder() -> None:
    conf = settings(rendered(Spec("rxe", nodes=2, origins=1))["slurm.conf"])
    assert not conf["SlurmdSpoolDir"].startswith("/tmp/mc")
    assert conf["SlurmdLogFile"].startswith("/tmp/mc")
    assert not any("$" in text for text in rendered(Spec("rxe", nodes=2, origins=1)).values())
