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


def test_nodes_and_partitions() -> None:
    text = rendered(Spec("veth", nodes=3, origins=1))["slurm.conf"]
    lines = text.splitlines()
    assert (
        "NodeName=node3 NodeHostname=node3 NodeAddr=10.77.5.3 CPUs=2 RealMemory=900 State=UNKNOWN"
    ) in lines
    assert [x.split()[:2] for x in lines if x.startswith("PartitionName")] == [
        ["PartitionName=compute", "Nodes=node1,node2"],
        ["PartitionName=origin", "Nodes=node3"],
        ["PartitionName=all", "Nodes=node1,node2,node3"],
    ]
    assert sum("Default=YES" in x for x in lines) == 1


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


def test_process_tracking_follows_the_host() -> None:
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


def test_every_party_is_in_the_hosts_file() -> None:
    hosts = rendered(Spec("veth", nodes=2, origins=1))["hosts"]
    assert hosts.splitlines() == [
        "127.0.0.1 localhost",
        "10.77.5.253 desk",
        "10.77.5.254 control",
        "10.77.5.1 node1",
        "10.77.5.2 node2",
    ]
