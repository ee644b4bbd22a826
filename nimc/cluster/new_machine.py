"""Makes the two files of a new machine: `configs/MACHINE.py` and `site/MACHINE.yaml`.

`configs/MACHINE.py` configures ReFrame. `site/MACHINE.yaml`, the site file, describes the machine.
In both, a comment names the source of each value. A key whose value is unknown is written as a
comment.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import yaml

from nimc.cluster.in_job import JobInspection, inspect_nodes
from nimc.cluster.learn import ClusterFacts, access
from nimc.cluster.node_inspection import NodeReport
from records.machine.devices import Device, Port, parse_name
from records.machine.fabrics import FABRICS, Fabric, InjectorName
from records.machine.host import Host, memory_only_nodes, nodes_with_cores
from records.slurm import options
from records.slurm.parse_nodes import NodeShape
from records.text import one_line
from records.units import plural

#: Largest width of a comment, characters.
_WIDTH = 98
#: Largest time limit of jobs that the configuration gets, seconds, even if the partition allows
#: longer jobs.
_MAX_JOB_S = 4 * 3600
#: Interfaces with which `srun` starts an application of Open MPI, MPICH or Cray's MPICH.
_MPI_TYPES = {"pmix", "pmi2", "cray_shasta"}
#: Prefixes of the names of interfaces of containers and virtual machines. These interfaces do not
#: lead to other nodes.
_VIRTUAL_PREFIXES = ("docker", "podman", "cni", "virbr", "lxc", "br-", "veth", "tun", "tap")
#: Prefix of link-local addresses. They lead to a node's own management controller, or to nothing.
_LINK_LOCAL = "169.254."
#: Placeholders for an unknown number and an unknown size.
_UNKNOWN_NUMBER, _UNKNOWN_SIZE = "N", "SIZE"
_UNKNOWN = {_UNKNOWN_NUMBER, _UNKNOWN_SIZE}
_TEMPLATES = Path(__file__).with_name("templates")


def config_text(name: str, facts: ClusterFacts) -> str:
    """Return the text of the machine's configuration of ReFrame. It is valid without edits."""
    models = {node.host.processor: node.host.cpu_model for node in facts.nodes}
    other_models = [model for processor, model in models.items() if processor != facts.processor]
    return _rendered(
        "config.py.in",
        name=name,
        facts=facts,
        hostnames=host_pattern(facts.host),
        launcher=options.SRUN if _MPI_TYPES & set(facts.mpi_types) else "mpirun",
        access=lambda partition: access(partition, facts.requirements),
        reframe_names=reframe_names(facts),
        longest_s=_MAX_JOB_S,
        mpi_variable=lambda pmi: [["SLURM_MPI_TYPE", pmi]] if pmi in facts.mpi_types else [],
        other_processor=other_models[0] if other_models else "",
    )


def reframe_names(facts: ClusterFacts) -> dict[str, str]:
    """Return the name of each partition in Slurm -> its name in ReFrame's configuration.

    ReFrame allows letters, digits, `_` and `-` only, and no digit at the beginning.
    """
    names: dict[str, str] = {}
    for partition in facts.partitions:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", partition.name)
        name = name if re.match(r"[A-Za-z_]", name) else f"p_{name}"
        while name in names.values():
            name += "_"
        names[partition.name] = name
    return names


def _rendered(template: str, **values: object) -> str:
    import jinja2  # slow to import

    environment = jinja2.Environment(keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {
        "quoted": json.dumps,
        "limit": _time_limit_text,
        "oneline": one_line,
        "plural": plural,
        "comment": _comment,
    }
    text = (_TEMPLATES / template).read_text(encoding="utf-8")
    return environment.from_string(text).render(values)


def host_pattern(host: str) -> str:
    """Return a regular expression for host names that differ from `host` only in their numbers."""
    short = host.partition(".")[0]
    return re.sub(r"[0-9]+", lambda _: r"\d+", re.escape(short)) + r"\b"


def _time_limit_text(seconds: int) -> str:
    """Return a time limit in ReFrame's form, such as `1h30m`."""
    minutes, rest_s = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = {"h": hours, "m": minutes, "s": rest_s}
    return "".join(f"{count}{unit}" for unit, count in parts.items() if count) or "0s"


# `site/MACHINE.yaml`.


def site_text(facts: ClusterFacts) -> str:
    """Return the text of the site file. It is valid without edits."""
    nodes = facts.nodes
    first_node = nodes[0] if nodes else None
    description = facts.settings.get("ClusterName") or "a cluster"
    if first_node:
        host = first_node.host
        description += f", {host.sockets} sockets a node, {host.cpu_model}"
    ports_by_node = {node.name: active_ports(node.host) for node in nodes}
    without_rdma = ", ".join(node for node, ports in ports_by_node.items() if not ports)
    common_devices = devices(nodes)
    sharers = port_sharers(nodes, common_devices)
    usable_interfaces = interfaces(nodes, next(iter(common_devices), None))
    fabric = _fabric(ports_by_node, common_devices)
    fastest = common_devices[0] if common_devices else None
    device = fastest.name if fastest else None
    why_uncounted = _why_uncounted(nodes, fastest) if fastest and not without_rdma else {}
    injector = _injector(fabric, why_uncounted)
    if without_rdma and usable_interfaces:
        device = usable_interfaces[0]
    rate_b_s = fastest.rate_b_s if fastest else 0.0
    shapes = {
        name: _shape_for_jobs(shape, facts.job_inspection) for name, shape in facts.shapes.items()
    }
    node_shape = shapes[facts.described_node] if facts.described_node else None
    node_facts = _node_facts(facts, node_shape) if node_shape else {}
    text = _rendered(
        "site.yaml.in",
        facts=facts,
        first_node=first_node,
        names=", ".join(ports_by_node),
        by_node=_by_node,
        entry=_yaml_line,
        reframe_names=reframe_names(facts),
        description=description,
        origins=_origins(facts),
        injector=injector,
        fabric=fabric,
        injectors=get_args(InjectorName),
        without_injector={
            node.name: reason
            for node in nodes
            if (reason := node.why_no_injector(injector, fabric))
        },
        why_uncounted=why_uncounted,
        make=_build_command(facts) if injector == "mpi_put" else "",
        without_rdma=without_rdma,
        active={node: _port_names(ports) for node, ports in ports_by_node.items()},
        rdma=fastest,
        device=device,
        rails=rails(common_devices, sharers),
        sharers=sharers,
        interfaces=usable_interfaces,
        addressed={node.name: ", ".join(common_interfaces([node])) for node in nodes},
        rate=f"{rate_b_s * 8 / 1e9:g}Gbit/s" if rate_b_s else "",
        pcie_limit=_pcie_limit(nodes, fastest) if fastest else "",
        system_cores=max((shape.system_cores for shape in shapes.values()), default=0),
        node_facts=node_facts,
        node_is_known=bool(node_facts) and not _UNKNOWN & {*map(str, node_facts.values())},
        other_nodes=sum(shape != node_shape for shape in shapes.values()),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _fabric(
    ports_by_node: Mapping[str, Sequence[tuple[Device, Port]]], common: Sequence[ActiveDevice]
) -> Fabric:
    """Return the fabric over which writers write.

    It is the fabric of the fastest device that all nodes have (`common`), or else of any active
    device. If a node has no active device, it is tcp. If no node was inspected, it is InfiniBand.
    """
    if not all(ports_by_node.values()):
        return FABRICS["tcp"]
    names = [device.fabric for device in common]
    names += [device.transport for ports in ports_by_node.values() for device, _ in ports]
    return FABRICS[names[0] if names else "InfiniBand"]


def _injector(fabric: Fabric, why_uncounted: Mapping[str, str]) -> InjectorName:
    """Return the fabric's first injector, or `mpi_put` if a node's device counts no bytes.

    Without a counter, only the target's memory can prove writes, and only `mpi_put` reads it.
    """
    if why_uncounted and "mpi_put" in fabric.injectors:
        return "mpi_put"
    return fabric.injectors[0]


def _why_uncounted(nodes: Sequence[NodeReport], device: ActiveDevice) -> dict[str, str]:
    """Return node -> why its `device` does not count bytes. Other nodes are left out."""
    port = parse_name(device.name).port
    reasons = {}
    for node in nodes:
        kernel_name = device.kernel_names[node.name]
        name = kernel_name if port == 1 else f"{kernel_name}:{port}"
        if name in node.uncounted:
            reasons[node.name] = node.uncounted[name]
    return reasons


def _origins(facts: ClusterFacts) -> dict[str, object]:
    """Return the section `origins` of the site file, without empty keys."""
    keys = facts.origins.model_dump(include={"policy", "nodes", "partition", "access"})
    return {key: value for key, value in keys.items() if value}


def _build_command(facts: ClusterFacts) -> str:
    """Return the command that builds the injector `mpi_put` with the site's MPI."""
    preferred_types = ("cray_shasta", "pmix", "pmi2")
    mpi_type = next((name for name in preferred_types if name in facts.mpi_types), "pmix")
    compiler = "MPICC=cc " if mpi_type == "cray_shasta" else ""
    return f"make -B -C conductor/mpi_put {compiler}LAUNCHER='{options.srun_launcher(mpi_type)}'"


def keys_to_fill_in(text: str) -> list[str]:
    """Return the keys of a site file that are written as comments since their value is unknown."""
    return re.findall(r"^# ([a-z_]+): (?=NAME$|5y$|\{|see )", text, re.MULTILINE)


def _yaml_line(key: str, value: object, example: object = None) -> str:
    """Return a line with a key and its value.

    If the value is None, the line is a comment with the key and an example.
    """
    value_text = yaml.safe_dump(
        example if value is None else value,
        default_flow_style=True,
        sort_keys=False,
        allow_unicode=True,
        width=math.inf,
    )
    comment_mark = "# " if value is None else ""
    return comment_mark + f"{key}: {value_text}".removesuffix("...\n").rstrip()


def _comment(text: str) -> str:
    """Return a text, which may come from another program, as the lines of a comment."""
    return "\n".join(f"# {line}" for line in textwrap.wrap(one_line(text), _WIDTH))


def _by_node(texts: Mapping[str, str]) -> str:
    return "; ".join(f"{node}: {text or 'none'}" for node, text in texts.items())


def _port_names(ports: Sequence[tuple[Device, Port]]) -> str:
    """Return a name such as `mlx5_0:1 at 0000:0c:00.0` for each port."""
    names = ((f"{device.name}:{port.number}", device.pci) for device, port in ports)
    return ", ".join(f"{name} at {pci}" if pci else name for name, pci in names)


def _shape_for_jobs(shape: NodeShape, job_inspection: JobInspection) -> NodeShape:
    """Return the shape of the part of a node that a job can use: its cores, threads and so on.

    At some sites, a plugin of Slurm lets jobs use only one thread of each core, or makes them leave
    cores to the system. `job_inspection` are the results of a job that requested
    neither threads nor cores for the system.
    """
    kept_cores = max(0, job_inspection.core_spec - shape.system_cores)
    return replace(
        shape,
        cores=max(1, shape.cores - kept_cores),
        system_cores=shape.system_cores + kept_cores,
        threads_per_core=min(
            job_inspection.threads_per_core or shape.threads_per_core, shape.threads_per_core
        ),
    )


def _node_facts(facts: ClusterFacts, shape: NodeShape) -> dict[str, object]:
    """Return the section `facts` of the site file: the facts of a node that jobs can use.

    `shape` is the node's shape for jobs. Unknown values are `N` or `SIZE`.
    """
    slurm_memory_b = shape.memory_mib and shape.memory_mib * 2**20
    node_facts: dict[str, object] = {
        "cores": shape.cores,
        "threads_per_core": shape.threads_per_core,
        "sockets": shape.sockets,
        "numa_nodes": _UNKNOWN_NUMBER,
    }
    if not facts.nodes:
        return node_facts | {"llc": _UNKNOWN_SIZE, "memory": _size_text(slurm_memory_b)}
    host = facts.nodes[0].host
    core_nodes = nodes_with_cores(host.numa_nodes) or [0]
    memory_only = memory_only_nodes(host.numa_nodes)
    if shape.cores > host.cores:
        # If slurm.conf gives only the number of CPUs of a node, Slurm counts each thread as a core.
        threads = max(1, host.threads // host.cores)
        cpus = shape.cores * shape.threads_per_core
        node_facts |= {"cores": min(host.cores, cpus // threads), "threads_per_core": threads}
    node_facts["sockets"] = host.sockets
    is_gapless = core_nodes == list(range(len(core_nodes)))
    node_facts["numa_nodes"] = len(core_nodes) if is_gapless else core_nodes
    if memory_only:
        node_facts["memory_nodes"] = memory_only
    rdma = devices(facts.nodes)
    if rdma and rdma[0].numa_node is not None:
        node_facts["nic_node"] = rdma[0].numa_node
    least_b = min(filter(None, (host.memory_b, slurm_memory_b)), default=None)
    return node_facts | {"llc": _size_text(host.llc_total_b), "memory": _size_text(least_b)}


def _size_text(size_b: int | None) -> str:
    """Return a size in the largest unit that gives a whole number; `SIZE` if it is unknown."""
    if not size_b:
        return _UNKNOWN_SIZE
    units = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
    return next(f"{size_b // factor}{unit}" for unit, factor in units if size_b % factor == 0)


# What the inspected nodes have in common.


@dataclass(frozen=True)
class ActiveDevice:
    """An RDMA device that has the same active port on every inspected node."""

    #: Its name in a site file: the name that the kernel gives it or, if this name is not the same
    #: on all nodes, its PCI address. `:PORT` follows if the active port is not the first.
    name: str
    #: Name of its fabric.
    fabric: str
    #: Whether the link layer of its port is Ethernet.
    is_ethernet: bool
    #: Its NUMA node; None if unknown.
    numa_node: int | None
    #: Rate of its port, bytes per second; 0 if unknown.
    rate_b_s: float
    #: Node -> the name that the kernel gives the device on this node.
    kernel_names: Mapping[str, str]


def devices(nodes: Sequence[NodeReport]) -> list[ActiveDevice]:
    """Return the RDMA devices with the same active port on every node, the fastest first.

    Among devices of the same rate, Ethernet comes last, since it may be the network of the storage.
    """
    ports_by_node = {node.name: active_ports(node.host) for node in nodes}
    common: dict[str, ActiveDevice] = {}
    for device, port in next(iter(ports_by_node.values()), []):
        for name in filter(None, (device.name, device.pci)):
            matches = {
                node: other
                for node, ports in ports_by_node.items()
                for other, other_port in ports
                if name in (other.name, other.pci) and other_port.number == port.number
            }
            # On different nodes, different devices may have the same name. Their addresses differ.
            addresses = {match.pci for match in matches.values()}
            if len(matches) == len(ports_by_node) and len(addresses) == 1:
                active = ActiveDevice(
                    name=name if port.number == 1 else f"{name}:{port.number}",
                    fabric=device.transport,
                    is_ethernet=port.link_layer == "Ethernet",
                    numa_node=device.numa_node,
                    rate_b_s=port.rate_b_s or 0.0,
                    kernel_names={node: match.name for node, match in matches.items()},
                )
                common.setdefault(device.name, active)
                break
    return sorted(common.values(), key=lambda device: (-device.rate_b_s, device.is_ethernet))


def rails(
    common_devices: Sequence[ActiveDevice], sharers: Collection[str]
) -> list[dict[str, object]]:
    """Return the section `rails` of the site file: RDMA devices of a node that writers may use.

    These are the devices with the rate and the fabric of the first device, if there are several.
    Other devices, such as those of a storage network, may not reach the same nodes. Devices in
    `sharers` are left out, since they share the port of another device.
    """
    first = next(iter(common_devices), None)
    rail_devices = [
        device
        for device in common_devices
        if first
        and (device.fabric, device.rate_b_s) == (first.fabric, first.rate_b_s)
        and device.name not in sharers
    ]
    entries: list[dict[str, object]] = []
    for device in rail_devices:
        entries.append({"device": device.name})
        if device.numa_node is not None:
            entries[-1]["numa_node"] = device.numa_node
    return entries if len(entries) > 1 else []


def _pcie_limit(nodes: Sequence[NodeReport], device: ActiveDevice) -> str:
    """Return a sentence about the slowest PCIe link of a device.

    The text is empty if the port of the device is not faster than this link.
    """
    rates_b_s = (node.pcie_b_s.get(device.kernel_names[node.name]) for node in nodes)
    slowest_b_s = min(filter(None, rates_b_s), default=math.inf)
    if slowest_b_s >= device.rate_b_s:
        return ""
    return (
        f" Its PCIe link reports {slowest_b_s * 8 / 1e9:.0f} Gbit/s, headers included: unless a"
        " virtual machine shows it so, writers cannot reach the rate of the port."
    )


def port_sharers(
    nodes: Sequence[NodeReport], common_devices: Sequence[ActiveDevice]
) -> dict[str, str]:
    """Return device that shares the port of another device -> the other device.

    Both are names in a site file. They share the port on at least one node.
    """
    names = {
        (node, kernel_name): device.name
        for device in common_devices
        for node, kernel_name in device.kernel_names.items()
    }
    pairs = [
        ((node.name, sharer), (node.name, owner))
        for node in nodes
        for sharer, owner in node.shared_ports.items()
    ]
    return {
        names[sharer]: names[owner] for sharer, owner in pairs if sharer in names and owner in names
    }


def active_ports(host: Host) -> list[tuple[Device, Port]]:
    """Return the active ports of a node's RDMA devices, as pairs of device and port."""
    return [(device, port) for device in host.rdma for port in device.ports if port.is_active]


def interfaces(nodes: Sequence[NodeReport], device: ActiveDevice | None) -> list[str]:
    """Return the interfaces that have an address on every node, the fastest first.

    Interfaces that do not lead to other nodes are left out. Among interfaces of the same rate, the
    interface of `device` comes first, since with iWARP writers reach the device through it.
    """
    first_interfaces = nodes[0].host.interfaces if nodes else []
    rates = {interface.name: interface.rate_b_s or 0.0 for interface in first_interfaces}
    usable = [
        name
        for name in common_interfaces(nodes)
        if not name.startswith(_VIRTUAL_PREFIXES)
        and not any(str(node.addresses[name]).startswith(_LINK_LOCAL) for node in nodes)
    ]
    device_interfaces = {
        node.device_interfaces.get(device.kernel_names[node.name]) for node in nodes if device
    }
    return sorted(usable, key=lambda name: (-rates.get(name, 0.0), name not in device_interfaces))


def common_interfaces(nodes: Sequence[NodeReport]) -> list[str]:
    """Return all interfaces that have an address on every node."""
    names = nodes[0].addresses if nodes else {}
    return [name for name in names if all(node.addresses.get(name) for node in nodes)]


# An inspection of nodes before the machine has a site file.


def with_facts_of_nodes(
    name: str, facts: ClusterFacts, parent: Path, wait_s: float, tell: Callable[[str], None]
) -> ClusterFacts:
    """Return the facts, completed by a job that inspects nodes.

    The job uses temporary files of the machine, which are made from `facts`. If Slurm refuses a
    heterogeneous job, or if a limit prevents its start, a plain job is tried. If the plain job gets
    no further, the facts with the result of the heterogeneous job are returned, since the cause
    (for example the account) has nothing to do with heterogeneous jobs. `tell` prints a line of
    progress. Raises MachineError and Stopped.
    """
    with TemporaryDirectory() as folder:
        root = Path(folder)

        def with_job_inspection(facts: ClusterFacts) -> ClusterFacts:
            texts = {f"configs/{name}.py": config_text(name, facts)}
            texts[f"site/{name}.yaml"] = site_text(facts)
            for file, text in texts.items():
                (root / file).parent.mkdir(exist_ok=True)
                (root / file).write_text(text, encoding="utf-8")
            job_inspection = inspect_nodes(name, parent, wait_s, tell, root)
            tell(job_inspection.outcome)
            return replace(facts, job_inspection=job_inspection)

        completed_facts = with_job_inspection(facts)
        job_inspection = completed_facts.job_inspection
        has_started = job_inspection.nodes or (job_inspection.job and not job_inspection.limit)
        if has_started or completed_facts.origins.policy != "hetjob":
            return completed_facts
        refusal = (
            f"it was not started: {job_inspection.limit}"
            if job_inspection.limit
            else job_inspection.why
        )
        plain_job_facts = with_job_inspection(replace(facts, hetjob_refusal=refusal))
        plain_inspection = plain_job_facts.job_inspection
        went_further = plain_inspection.nodes if job_inspection.job else plain_inspection.job
        return plain_job_facts if went_further else completed_facts
