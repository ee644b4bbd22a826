"""Slurm's configuration files for a cluster, rendered from the templates in site/minicluster."""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from campaigns.minicluster.cgroups import Kind
from campaigns.minicluster.layout import SITE, ClusterLayout
from campaigns.minicluster.spec import Spec


@dataclass(frozen=True)
class Hardware:
    """Size of every node in slurm.conf, and how slurmd may track processes."""

    cpus: int
    memory_mib: int
    cgroup: Kind


def render(
    spec: Spec, layout: ClusterLayout, subnet: str, hardware: Hardware, this_host: str
) -> dict[str, str]:
    """File name -> text of all files that the daemons read."""
    return {
        "slurm.conf": _slurm_conf(spec, layout, subnet, hardware),
        "slurmdbd.conf": _fill("slurmdbd.conf", _paths(layout)),
        "cgroup.conf": _fill(
            "cgroup.conf",
            {
                "plugin": "cgroup/v2" if hardware.cgroup == "v2" else "cgroup/v1",
                # Only version 2 looks for systemd.
                "ignore_systemd": "yes" if hardware.cgroup == "v2" else "no",
            },
        ),
        "hosts": hosts(spec, subnet, this_host),
    }


def _slurm_conf(spec: Spec, layout: ClusterLayout, subnet: str, hardware: Hardware) -> str:
    virtual = spec.fabric == "rxe"
    nodes = [
        f"NodeName={n.name} NodeHostname={n.name} NodeAddr={subnet}.{n.index} "
        f"CPUs={hardware.cpus} RealMemory={hardware.memory_mib} State=UNKNOWN"
        for n in spec.members()
    ]
    partitions = [
        f"PartitionName={name} Nodes={','.join(members)} OverSubscribe=EXCLUSIVE "
        f"MaxTime=INFINITE State=UP{' Default=YES' if name == 'compute' else ''}"
        for name, members in spec.partitions().items()
    ]
    tracking = "linuxproc" if hardware.cgroup == "none" else "cgroup"
    return _fill(
        "slurm.conf",
        {
            **_paths(layout),
            "subnet": subnet,
            "site": str(SITE),
            # slurmstepd makes sockets in its spool folder, which a 9p mount cannot hold.
            "spool": "/run/slurmd/%n" if virtual else f"{layout.state}/spool/%n",
            # The PMIx plugin creates folders here; containers share /tmp but must not share these.
            "tmp": "/tmp" if virtual else f"{layout.state}/tmp/%n",
            "pid_folder": "/run" if virtual else f"{layout.state}/run",
            "proctrack": f"proctrack/{tracking}",
            # An emulated processor on a busy host may not answer for seconds.
            "slurmd_timeout_s": "30" if virtual else "10",
            "message_timeout_s": "30" if virtual else "10",
            "nodes": "\n".join(nodes),
            "partitions": "\n".join(partitions),
        },
    )


def hosts(spec: Spec, subnet: str, this_host: str) -> str:
    """The nodes' /etc/hosts. `this_host` is the name of the host that submits jobs."""
    lines = ["127.0.0.1 localhost", f"{subnet}.253 {this_host}", f"{subnet}.254 control"]
    lines += [f"{subnet}.{n.index} {n.name}" for n in spec.members()]
    return "\n".join(lines) + "\n"


def _paths(layout: ClusterLayout) -> dict[str, str]:
    return {"state": str(layout.state), "munge_socket": str(layout.munge_socket)}


def _fill(template: str, values: dict[str, str]) -> str:
    return Template((SITE / template).read_text()).substitute(values)
