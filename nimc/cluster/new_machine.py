"""A new machine's two files, `configs/MACHINE.py` and `site/MACHINE.yaml`: `nimc init`.

Every value has its source; what is unknown is a comment.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory

from nimc.cluster.in_job import Place, in_common, look, outcome
from nimc.cluster.learn import (
    ClusterFacts,
    NodeShape,
    SlurmPartition,
    access,
    active_devices,
    devices,
    interfaces,
)
from records.machine.devices import Device, Port
from records.machine.host import NumaNode, memory_nodes, nodes_with_cores
from records.text import one_line

_WIDTH = 98
#: Longest job that is requested, seconds, where a partition allows more.
_LONGEST_S = 4 * 3600
#: Interfaces of `srun` to an application's MPI: of Open MPI, MPICH, and Cray's MPICH.
_PMIX, _PMI2, _CRAY = "pmix", "pmi2", "cray_shasta"

_TEMPLATES = Path(__file__).with_name("templates")


def _filled(template: str, **values: object) -> str:
    """A template with its values, without its end of line."""
    text = (_TEMPLATES / f"{template}.py.in").read_text(encoding="utf-8")
    return Template(text).substitute(values).rstrip("\n")


def config_text(name: str, facts: ClusterFacts) -> str:
    """The file. It needs no edit to be valid."""
    partitions = "\n".join(_partition(partition, facts) for partition in facts.partitions)
    text = _filled(
        "config",
        name=name,
        hostnames=f'r"{host_pattern(facts.host)}"',
        modules_system=json.dumps(facts.modules_system),
        partitions=textwrap.indent(partitions, " " * 16),
        environments=textwrap.indent("\n".join(_environments(facts)), " " * 8),
    )
    return f"{text}\n"


def host_pattern(host: str) -> str:
    """A regular expression for this host and those that differ in a number only."""
    short = host.partition(".")[0]
    return re.sub(r"[0-9]+", lambda _: r"\d+", re.escape(short)) + r"\b"


def _partition(partition: SlurmPartition, facts: ClusterFacts) -> str:
    direct = {_PMIX, _PMI2, _CRAY} & set(facts.mpi)
    listed = ", ".join(facts.mpi) or "nothing"
    limit_s = partition.limit_s
    return _filled(
        "partition",
        nodes=partition.nodes,
        limit_source=f"longest job {_limit(limit_s)}" if limit_s else "jobs of any length",
        name=json.dumps(partition.name),
        accounting=_comment(facts.settings.get("AccountingStorageType", "unknown")),
        launcher_source=_comment(f"srun --mpi=list: {listed}"),
        launcher='"srun"' if direct else '"mpirun"',
        access_source=_comment(_access_source(partition, facts)),
        access=json.dumps(access(partition, facts.accounts)),
        time_limit=json.dumps(_limit(min(limit_s or _LONGEST_S, _LONGEST_S))),
    )


def _access_source(partition: SlurmPartition, facts: ClusterFacts) -> str:
    whole = "whole nodes only" if partition.whole_nodes else "no --exclusive by itself"
    if not facts.accounts:
        return f"{whole}; sacctmgr shows no account: if one is required, --account=NAME"
    names = ", ".join(facts.accounts)
    default = [name for name, is_default in facts.accounts.items() if is_default]
    taken = f", {default[0]} without --account" if default else ""
    return f"{whole}; accounts (sacctmgr): {names}{taken}"


def _limit(seconds: int) -> str:
    """In ReFrame's form."""
    minutes, rest_s = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    return "".join([*parts, f"{rest_s}s" if rest_s else ""]) or "0s"


def _environments(facts: ClusterFacts) -> list[str]:
    """Those of Spack and of the wheels; that of modules is a comment to fill in."""
    source = "Built by `nimc spack build`, once `nimc spack setup` was run."
    note = "Wheels, MPICH included: work anywhere, but not over the fast network."
    if _PMI2 not in facts.mpi:
        note += " srun has no pmi2 (srun --mpi=list): the MPICH of the wheels needs it."
    others = {node["host"]["processor"]: node["host"]["cpu_model"] for node in facts.nodes}
    if different := [model for kind, model in others.items() if kind != facts.processor]:
        note += f" Nodes have {different[0]}, unlike this host, where sources are compiled: set"
        note += ' "cflags": ["-march=..."].'
    modules = ", ".join(facts.modules) or "no gcc, no MPI"
    return [
        _environment("spack", source, _PMIX, facts, ftn="gfortran"),
        _environment("wheels", note, _PMI2, facts, ftn=""),
        f"# Modules (module --terse --default avail): {_comment(modules)}.",
        '# Those that others hide: module spider lammps. To use them, fill in, and add "modules"',
        "# to environs above; SLURM_MPI_TYPE: pmix for Open MPI, pmi2 for MPICH and MVAPICH.",
        '# {"name": "modules", "modules": ["gcc/VERSION", "openmpi/VERSION", "lammps/VERSION"],',
        '#  "cc": "gcc", "cxx": "g++", "ftn": "gfortran", "features": ["modules"],',
        '#  "env_vars": [["SLURM_MPI_TYPE", "pmix"]], "target_systems": ["*"]},',
    ]


def _environment(name: str, source: str, pmi: str, facts: ClusterFacts, ftn: str) -> str:
    return _filled(
        "environment",
        source=_comment(source),
        name=json.dumps(name),
        ftn=json.dumps(ftn),
        env_vars=json.dumps([["SLURM_MPI_TYPE", pmi]] if pmi in facts.mpi else []),
    )


def _comment(text: str) -> str:
    """What others said, in lines of a comment; the first has its mark already."""
    return "\n    # ".join(textwrap.wrap(one_line(text), _WIDTH - 20))


# `site/MACHINE.yaml`.


_PLAIN = re.compile(r"[A-Za-z][\w./-]*", re.ASCII)
#: What YAML does not take for text.
_WORDS = ("true", "false", "yes", "no", "on", "off", "y", "n", "null")


@dataclass(frozen=True)
class SiteEntry:
    """A key of the file, and where its value is from."""

    key: str
    #: YAML; None: unknown.
    value: str | None
    source: str
    #: What is allowed for a value that is unknown.
    allowed: str = ""

    def lines(self) -> list[str]:
        """A comment, then the key; a value that is unknown is a comment as well."""
        source = [f"# {line}" for line in textwrap.wrap(one_line(self.source), _WIDTH)]
        if self.value is None:
            return [*source, f"# {self.key}: {self.allowed}"]
        block = self.value.startswith("\n")
        return [*source, f"{self.key}:{'' if block else ' '}{self.value}"]


def site_text(facts: ClusterFacts) -> str:
    """The file. It needs no edit to be valid."""
    lines = [
        "# Made by `nimc init`; docs/add-a-machine.md explains every key. A comment says where",
        "# each value is from; lines to fill in are comments as well.",
        *(line for entry in entries(facts) for line in ("", *entry.lines())),
    ]
    return "\n".join(lines) + "\n"


def entries(facts: ClusterFacts) -> list[SiteEntry]:
    """All keys in the order of the file."""
    target, nodes = facts.target.name, str(facts.target.nodes)
    spec = facts.settings.get("AllowSpecResourcesUsage")
    core_spec = None if spec is None else str(spec.lower() in ("yes", "1")).lower()
    asked = "scontrol show config: AllowSpecResourcesUsage"
    return [
        _description(facts),
        _origins(facts),
        _injector(facts),
        _device(facts),
        *_rails(facts),
        _interface(facts),
        _nic(facts),
        SiteEntry("partition", _scalar(target), "scontrol show partition: the default one"),
        SiteEntry("core_spec", core_spec, asked, "true, false"),
        SiteEntry("nodes", nodes, f"scontrol show partition: all of {target}"),
        SiteEntry("node_mtti", None, "A node's mean time to interrupt, from operators.", "5y"),
        _facts(facts),
    ]


def _description(facts: ClusterFacts) -> SiteEntry:
    name = facts.settings.get("ClusterName") or "a cluster"
    if not facts.nodes:
        return SiteEntry("description", _scalar(name), "scontrol show config: ClusterName")
    host = facts.nodes[0]["host"]
    text = f"{name}, {host['sockets']} sockets a node, {host['cpu_model']}"
    source = f"scontrol show config: ClusterName; /proc/cpuinfo of {facts.nodes[0]['node']}"
    return SiteEntry("description", json.dumps(text, ensure_ascii=False), source)


def _origins(facts: ClusterFacts) -> SiteEntry:
    origins = facts.origins
    if origins.policy == "hetjob":
        took = f"Slurm took such a job ({facts.looked.job})"
        tried = took if facts.nodes else "not known whether Slurm takes such a job"
        value = f"\n  policy: hetjob\n  nodes: 1\n  partition: {_scalar(facts.target.name)}"
        return SiteEntry("origins", value, f"Origins in a heterogeneous job: {tried}.")
    if origins.policy == "same_job":
        source = f"The last node of each job. Of a heterogeneous one: {facts.hetjob_refused}"
        return SiteEntry("origins", "\n  policy: same_job\n  nodes: 1", source)
    return SiteEntry("origins", "\n  policy: same_host", "The partition has one node only.")


def _device(facts: ClusterFacts) -> SiteEntry:
    """An RDMA device with an active port, or else an interface, that all nodes have."""
    names = ", ".join(node["node"] for node in facts.nodes)
    if rdma := devices(facts.nodes):
        source = f"/sys/class/infiniband of {names}"
        if len(set(rdma[0].names.values())) > 1:
            source += f": the PCI address of {_by_node(rdma[0].names)}"
        return SiteEntry("device", _scalar(rdma[0].name), source)
    if _all_active(facts):
        active = {node["node"]: _words(active_devices(node["host"])) for node in facts.nodes}
        source = "No active port has the same device, by name or PCI address, on all nodes: "
        return SiteEntry("device", None, source + _by_node(active), "NAME, or PCI-ADDRESS")
    if over := interfaces(facts.nodes):
        without = [node["node"] for node in facts.nodes if not active_devices(node["host"])]
        source = f"no active RDMA device on {', '.join(without)}: the interface counts what arrives"
        return SiteEntry("device", _scalar(over[0]), source)
    source = f"Unknown: {facts.looked.why or 'nodes have no device and no interface in common'}"
    return SiteEntry("device", None, source, "NAME in /sys/class/infiniband")


def _all_active(facts: ClusterFacts) -> bool:
    """Whether every node has an RDMA device with an active port."""
    return bool(facts.nodes) and all(active_devices(node["host"]) for node in facts.nodes)


def _rails(facts: ClusterFacts) -> list[SiteEntry]:
    """Devices as fast as the first, if there are several."""
    rdma = devices(facts.nodes)
    alike = [device for device in rdma if device.rate_b_s == rdma[0].rate_b_s]
    if len(alike) < 2:
        return []
    names = ", ".join(node["node"] for node in facts.nodes)
    rails = ""
    for device in sorted(alike, key=lambda device: device.name):
        at = "" if device.numa_node is None else f", numa_node: {device.numa_node}"
        rails += f"\n  - {{device: {_scalar(device.name)}{at}}}"
    return [SiteEntry("rails", rails, f"active devices of the same rate on {names}")]


def _interface(facts: ClusterFacts) -> SiteEntry:
    if over := interfaces(facts.nodes):
        names = ", ".join(node["node"] for node in facts.nodes)
        more = f"; also there: {', '.join(over[1:])}" if over[1:] else ""
        source = f"/sys/class/net of {names}, the fastest with an address on all{more}"
        return SiteEntry("interface", _scalar(over[0]), source)
    source = "The network interface of conductor and agents, on all nodes"
    if facts.nodes:
        addressed = {n["node"]: ", ".join(in_common([n["addresses"]])) for n in facts.nodes}
        source += f", which have none in common: {_by_node(addressed)}"
    return SiteEntry("interface", None, f"{source}.", "NAME in /sys/class/net")


def _words(active: Sequence[tuple[Device, Port]]) -> str:
    """`mlx5_0:1 at 0000:0c:00.0` of each active port."""
    at = {f"{device.name}:{port.number}": device.pci for device, port in active}
    return ", ".join(f"{name} at {pci}" if pci else name for name, pci in at.items())


def _by_node(words: Mapping[str, str]) -> str:
    return "; ".join(f"{node}: {text or 'none'}" for node, text in words.items())


def _injector(facts: ClusterFacts) -> SiteEntry:
    allowed = "allowed: perftest (RDMA), ucx, mpi_put, fabtests, copy_engine"
    if not facts.nodes:
        return SiteEntry("injector", "perftest", f"Not looked for; {allowed}")
    rdma = _all_active(facts)
    by_gpu = not rdma and all(node["host"].get("gpus") for node in facts.nodes)
    alone = facts.origins.policy == "same_host"
    name = "perftest" if rdma else "copy_engine" if by_gpu and alone else "ucx"
    missing = ", ".join(node["node"] for node in facts.nodes if node["injectors"][name])
    if missing and rdma and not any(node["injectors"]["ucx"] for node in facts.nodes):
        return SiteEntry("injector", "ucx", f"{missing} has no {name}, but ucx_perftest")
    reason = "RDMA devices" if rdma else "no active RDMA device"
    state = f"missing on {missing}: install it" if missing else "ready on all"
    if by_gpu:
        allowed = "copy_engine needs a GPU, which they have, and policy: same_host; " + allowed
    return SiteEntry("injector", name, f"{reason} on the nodes; {state}; {allowed}")


def _nic(facts: ClusterFacts) -> SiteEntry:
    rate, source = "200Gbit/s", "From the data sheet; processing: onload or offload."
    for first in devices(facts.nodes)[:1]:
        if first.rate_b_s:
            rate = f"{first.rate_b_s * 8 / 1e9:g}Gbit/s"
            source += f" The port of {first.name} reports {rate}."
    allowed = f"{{model: NAME, processing: offload, link_rate: {rate}}}"
    return SiteEntry("nic", None, source, allowed)


def _facts(facts: ClusterFacts) -> SiteEntry:
    shapes = facts.shapes.get(facts.target.name, [])
    if not shapes:
        return SiteEntry("facts", None, "One compute node.", "see docs/add-a-machine.md")
    (shape, count), *more = shapes
    others = sum(number for _, number in more)
    slurm = "scontrol show node"
    slurm += f"; {others} nodes of {facts.target.name} differ from {count}" if others else ""
    if not facts.nodes:
        source = f"{slurm}; for NUMA nodes and the last-level caches of all sockets: lscpu there"
        return SiteEntry("facts", None, source, _flow(_facts_of_shape(shape)))
    values, where = _facts_of_node(facts, shape), facts.nodes[0]["node"]
    if "SIZE" in values.values():
        source = f"{slurm}; the kernel of {where} does not report every size: SIZE is unknown"
        return SiteEntry("facts", None, source, _flow(values))
    source = f"/sys, /proc of {where}; threads_per_core, and the most of cores and memory: {slurm}"
    value = "".join(f"\n  {key}: {value}" for key, value in values.items())
    return SiteEntry("facts", value, source)


def _flow(values: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in values.items()) + "}"


def _facts_of_shape(shape: NodeShape) -> dict[str, object]:
    """What Slurm says of a node; `N`, `SIZE` and an example for what it does not."""
    return {
        "cores": shape.cores,
        "threads_per_core": shape.threads_per_core,
        "sockets": shape.sockets,
        "numa_nodes": "N",
        "llc": "512MiB",
        "memory": _size(shape.memory_mib * 2**20) if shape.memory_mib else "SIZE",
    }


def _facts_of_node(facts: ClusterFacts, shape: NodeShape) -> dict[str, object]:
    """Facts of the first node as jobs get it; `SIZE` for what is unknown."""
    host = facts.nodes[0]["host"]
    there = [NumaNode(**node) for node in host["numa_nodes"]]
    numbers = nodes_with_cores(there) or [0]
    values: dict[str, object] = {
        "cores": min(host["cores"], shape.cores),
        "threads_per_core": shape.threads_per_core,
        "sockets": host["sockets"],
        "numa_nodes": len(numbers) if numbers == list(range(len(numbers))) else numbers,
    }
    if bare := memory_nodes(there):
        values["memory_nodes"] = bare
    rdma = devices(facts.nodes)
    if rdma and rdma[0].numa_node is not None:
        values["nic_node"] = rdma[0].numa_node
    sizes_b = [host["memory_b"], shape.memory_mib and shape.memory_mib * 2**20]
    values["llc"] = _size(host["llc_total_b"]) if host["llc_total_b"] else "SIZE"
    values["memory"] = _size(min(filter(None, sizes_b))) if any(sizes_b) else "SIZE"
    return values


def _size(size_b: int) -> str:
    """In the largest unit that gives a whole number."""
    units = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
    return next(f"{size_b // factor}{unit}" for unit, factor in units if size_b % factor == 0)


def _scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)  # YAML takes no surrogates


def unknown(entries: Sequence[SiteEntry]) -> list[str]:
    """Keys to fill in."""
    return [entry.key for entry in entries if entry.value is None]


# A look at nodes, before there is a site file.


def with_nodes(
    name: str, facts: ClusterFacts, parent: Path, wait_s: float, tell: Callable[[str], None]
) -> ClusterFacts:
    """The facts with those of nodes, by a job of ReFrame with the new configuration.

    If Slurm takes no heterogeneous job, it is asked for one without: what is refused to both, such
    as the account, says nothing of heterogeneous ones. Raises MachineError, Stopped.
    """
    with TemporaryDirectory() as folder:
        config = Path(folder, f"{name}.py")
        config.write_text(config_text(name, facts), encoding="utf-8")

        def looked(facts: ClusterFacts) -> ClusterFacts:
            place = Place(config, facts.target.name, "wheels", facts.origins)
            result = look(place, parent, wait_s, tell)
            tell(outcome(result))
            return replace(facts, looked=result)

        first = looked(facts)
        if first.looked.job or first.origins.policy != "hetjob":
            return first
        second = looked(replace(facts, hetjob_refused=first.looked.why))
        return second if second.looked.job else first
