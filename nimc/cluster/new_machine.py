"""A new machine's two files, `configs/MACHINE.py` and `site/MACHINE.yaml`: `nimc init`.

Every value has its source; what is unknown is a comment.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import yaml

from nimc.cluster.in_job import look_at_nodes
from nimc.cluster.learn import ClusterFacts
from nimc.cluster.node_look import NodeReport
from records.machine.devices import Device, Port
from records.machine.fabrics import FABRICS, Fabric, InjectorName
from records.machine.host import Host, memory_only_nodes, nodes_with_cores
from records.slurm import options
from records.slurm.parse_nodes import NodeShape, SlurmPartition
from records.text import one_line

_WIDTH = 98
#: Longest job that is requested, seconds, where a partition allows more.
_LONGEST_S = 4 * 3600
#: Interfaces of `srun` to an application's MPI: of Open MPI, MPICH, and Cray's MPICH.
_MPI_TYPES = {"pmix", "pmi2", "cray_shasta"}
#: Interfaces that containers and virtual machines make: other nodes cannot be reached over them.
_INNER = ("docker", "podman", "cni", "virbr", "lxc", "br-", "veth", "tun", "tap")
#: Keys of `origins` that are written.
_ORIGINS = {"policy", "nodes", "partition"}
_TEMPLATES = Path(__file__).with_name("templates")


def config_text(name: str, facts: ClusterFacts) -> str:
    """The configuration of ReFrame. It needs no edit to be valid."""
    models = {node.host.processor: node.host.cpu_model for node in facts.nodes}
    others = [model for processor, model in models.items() if processor != facts.processor]
    return _filled(
        "config.py.in",
        name=name,
        facts=facts,
        hostnames=host_pattern(facts.host),
        launcher=options.LAUNCHER if _MPI_TYPES & set(facts.mpi) else "mpirun",
        access=access,
        longest_s=_LONGEST_S,
        mpi_variable=lambda pmi: [["SLURM_MPI_TYPE", pmi]] if pmi in facts.mpi else [],
        other_processor=others[0] if others else "",
    )


def _filled(template: str, **values: object) -> str:
    import jinja2  # takes long

    environment = jinja2.Environment(keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {
        "quoted": json.dumps,
        "limit": _limit,
        "oneline": one_line,
        "comment": _comment,
    }
    text = (_TEMPLATES / template).read_text(encoding="utf-8")
    return environment.from_string(text).render(values)


def host_pattern(host: str) -> str:
    """A regular expression for this host and those that differ in a number only."""
    short = host.partition(".")[0]
    return re.sub(r"[0-9]+", lambda _: r"\d+", re.escape(short)) + r"\b"


def access(partition: SlurmPartition) -> list[str]:
    """Options of every job in a partition."""
    return [f"--partition={partition.name}"] + ["--exclusive"] * (not partition.whole_nodes)


def _limit(seconds: int) -> str:
    """In ReFrame's form."""
    minutes, rest_s = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = {"h": hours, "m": minutes, "s": rest_s}
    return "".join(f"{count}{unit}" for unit, count in parts.items() if count) or "0s"


# `site/MACHINE.yaml`.


def site_text(facts: ClusterFacts) -> str:
    """The site file. It needs no edit to be valid."""
    nodes, first = facts.nodes, facts.nodes[0] if facts.nodes else None
    description = facts.settings.get("ClusterName") or "a cluster"
    if first:
        description += f", {first.host.sockets} sockets a node, {first.host.cpu_model}"
    active = {node.name: active_ports(node.host) for node in nodes}
    without_rdma = ", ".join(node for node, ports in active.items() if not ports)
    over, rdma = interfaces(nodes), devices(nodes)
    fabric = _fabric(active, rdma)
    injector = fabric.injectors[0]
    device = rdma[0].name if rdma else None
    if without_rdma and over:
        device = over[0]
    rate_b_s = rdma[0].rate_b_s if rdma else 0.0
    shapes = facts.shapes
    node_facts = _node_facts(facts, shapes[0][0]) if shapes else {}
    text = _filled(
        "site.yaml.in",
        facts=facts,
        first=first,
        names=", ".join(active),
        by_node=_by_node,
        entry=_entry,
        description=description,
        origins=facts.origins.model_dump(include=_ORIGINS, exclude_none=True),
        injector=injector,
        fabric=fabric,
        injectors=get_args(InjectorName),
        without_injector={
            node.name: lack for node in nodes if (lack := node.without_injector(injector, fabric))
        },
        make=_make(facts) if injector == "mpi_put" else "",
        without_rdma=without_rdma,
        active={node: _ports(ports) for node, ports in active.items()},
        rdma=rdma[0] if rdma else None,
        device=device,
        rails=rails(rdma),
        interfaces=over,
        addressed={node.name: ", ".join(in_common([node])) for node in nodes},
        rate=f"{rate_b_s * 8 / 1e9:g}Gbit/s" if rate_b_s else "200Gbit/s",
        node_facts=node_facts,
        known_of_node=node_facts and not {"N", "SIZE"} & set(map(str, node_facts.values())),
        unlike=sum(count for _, count in shapes[1:]),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _fabric(
    active: Mapping[str, Sequence[tuple[Device, Port]]], common: Sequence[ActiveDevice]
) -> Fabric:
    """The fabric of the fastest device that all nodes have, else of any; tcp without."""
    if not all(active.values()):
        return FABRICS["tcp"]
    transports = [device.transport for ports in active.values() for device, _ in ports]
    return FABRICS[next(iter([*(device.fabric for device in common), *transports]), "InfiniBand")]


def _make(facts: ClusterFacts) -> str:
    """Return how `mpi_put` is built with the site's MPI."""
    mpi = next((name for name in ("cray_shasta", "pmix", "pmi2") if name in facts.mpi), "pmix")
    compiler = "MPICC=cc " if mpi == "cray_shasta" else ""
    return f"make -B -C conductor/mpi_put {compiler}LAUNCHER='{options.srun_launcher(mpi)}'"


def to_fill_in(text: str) -> list[str]:
    """Keys of a site file that are comments."""
    return re.findall(r"^# ([a-z_]+): (?=NAME$|5y$|\{|see )", text, re.MULTILINE)


def _entry(key: str, value: object, example: object = None) -> str:
    """A key with its value; without one, a comment with an example."""
    shown = yaml.safe_dump(
        example if value is None else value,
        default_flow_style=True,
        sort_keys=False,
        allow_unicode=True,
        width=math.inf,
    )
    mark = "# " if value is None else ""
    return mark + f"{key}: {shown}".removesuffix("...\n").rstrip()


def _comment(text: str) -> str:
    """Return what others said, in lines of a comment."""
    return "\n".join(f"# {line}" for line in textwrap.wrap(one_line(text), _WIDTH))


def _by_node(words: Mapping[str, str]) -> str:
    return "; ".join(f"{node}: {text or 'none'}" for node, text in words.items())


def _ports(active: Sequence[tuple[Device, Port]]) -> str:
    """`mlx5_0:1 at 0000:0c:00.0` of each active port."""
    names = ((f"{device.name}:{port.number}", device.pci) for device, port in active)
    return ", ".join(f"{name} at {pci}" if pci else name for name, pci in names)


def _node_facts(facts: ClusterFacts, shape: NodeShape) -> dict[str, object]:
    """Facts of a node as jobs get it; `N` and `SIZE` for what is unknown."""
    slurm_b = shape.memory_mib and shape.memory_mib * 2**20
    values: dict[str, object] = {
        "cores": shape.cores,
        "threads_per_core": shape.threads_per_core,
        "sockets": shape.sockets,
        "numa_nodes": "N",
    }
    if not facts.nodes:
        return values | {"llc": "SIZE", "memory": _size(slurm_b)}
    host = facts.nodes[0].host
    numbers = nodes_with_cores(host.numa_nodes) or [0]
    bare = memory_only_nodes(host.numa_nodes)
    values["cores"] = min(host.cores, shape.cores)
    values["sockets"] = host.sockets
    values["numa_nodes"] = len(numbers) if numbers == list(range(len(numbers))) else numbers
    if bare:
        values["memory_nodes"] = bare
    rdma = devices(facts.nodes)
    if rdma and rdma[0].numa_node is not None:
        values["nic_node"] = rdma[0].numa_node
    least_b = min(filter(None, (host.memory_b, slurm_b)), default=None)
    return values | {"llc": _size(host.llc_total_b), "memory": _size(least_b)}


def _size(size_b: int | None) -> str:
    """In the largest unit that gives a whole number; `SIZE` if unknown."""
    if not size_b:
        return "SIZE"
    units = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
    return next(f"{size_b // factor}{unit}" for unit, factor in units if size_b % factor == 0)


# Facts of all nodes.


@dataclass(frozen=True)
class ActiveDevice:
    """An RDMA device that every node has, with an active port."""

    #: Named as in a site file: by name, or by PCI address if nodes name it differently.
    name: str
    #: Name of its fabric.
    fabric: str
    numa_node: int | None
    rate_b_s: float
    #: Node -> the kernel's name there.
    names: Mapping[str, str]


def devices(nodes: Sequence[NodeReport]) -> list[ActiveDevice]:
    """RDMA devices with the same active port on every node, the fastest first."""
    ports_by_node = {node.name: active_ports(node.host) for node in nodes}
    common: dict[str, ActiveDevice] = {}
    for device, port in next(iter(ports_by_node.values()), []):
        for name in filter(None, (device.name, device.pci)):
            same = {
                node: other
                for node, others in ports_by_node.items()
                for other, its_port in others
                if name in (other.name, other.pci) and its_port.number == port.number
            }
            # One name may be another device on another node.
            if len(same) == len(ports_by_node) and len({other.pci for other in same.values()}) == 1:
                names = {node: other.name for node, other in same.items()}
                wanted = name if port.number == 1 else f"{name}:{port.number}"
                rate_b_s = port.rate_b_s or 0.0
                active = ActiveDevice(wanted, device.transport, device.numa_node, rate_b_s, names)
                common.setdefault(device.name, active)
                break
    return sorted(common.values(), key=lambda device: -device.rate_b_s)


def rails(common: Sequence[ActiveDevice]) -> list[dict[str, object]]:
    """Devices as fast as the first, if there are several."""
    alike = [device for device in common if device.rate_b_s == common[0].rate_b_s]
    entries: list[dict[str, object]] = []
    for device in sorted(alike, key=lambda device: device.name):
        entries.append({"device": device.name})
        if device.numa_node is not None:
            entries[-1]["numa_node"] = device.numa_node
    return entries if len(entries) > 1 else []


def active_ports(host: Host) -> list[tuple[Device, Port]]:
    """The RDMA devices of a node with their active ports."""
    pairs = ((device, port) for device in host.rdma for port in device.ports)
    return [(device, port) for device, port in pairs if port.is_active]


def interfaces(nodes: Sequence[NodeReport]) -> list[str]:
    """Network interfaces with an address on every node, the fastest first."""
    listed = nodes[0].host.interfaces if nodes else []
    rates = {interface.name: interface.rate_b_s or 0.0 for interface in listed}
    usable = [name for name in in_common(nodes) if not name.startswith(_INNER)]
    return sorted(usable, key=lambda name: -rates.get(name, 0.0))


def in_common(nodes: Sequence[NodeReport]) -> list[str]:
    """Interfaces with an address on every node."""
    names = nodes[0].addresses if nodes else {}
    return [name for name in names if all(node.addresses.get(name) for node in nodes)]


# A look at nodes, before there is a site file.


def with_nodes(
    name: str, facts: ClusterFacts, parent: Path, wait_s: float, tell: Callable[[str], None]
) -> ClusterFacts:
    """The facts with those of nodes, by a job of ReFrame with the two files as they are so far.

    If Slurm takes no heterogeneous job, or a limit keeps one waiting, it is asked for one without:
    what is refused to both, such as the account, says nothing of heterogeneous ones. Raises
    MachineError, Stopped.
    """
    with TemporaryDirectory() as folder:
        root = Path(folder)

        def looked(facts: ClusterFacts) -> ClusterFacts:
            texts = {f"configs/{name}.py": config_text(name, facts)}
            texts[f"site/{name}.yaml"] = site_text(facts)
            for file, text in texts.items():
                (root / file).parent.mkdir(exist_ok=True)
                (root / file).write_text(text, encoding="utf-8")
            result = look_at_nodes(name, parent, wait_s, tell, root)
            tell(result.outcome)
            return replace(facts, looked=result)

        first = looked(facts)
        result = first.looked
        why = f"it was not started: {result.limit}" if result.limit else result.why
        tried = result.nodes or (result.job and not result.limit)
        if tried or first.origins.policy != "hetjob":
            return first
        second = looked(replace(facts, hetjob_refused=why))
        serves = second.looked.nodes if result.job else second.looked.job
        return second if serves else first
