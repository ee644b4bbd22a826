"""The text of a new machine's two files, `configs/MACHINE.py` and `site/MACHINE.yaml`.

Every value has its source; what is unknown is a comment.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from nimc.cluster.in_job import in_common
from nimc.cluster.learn import (
    ClusterFacts,
    NodeShape,
    SlurmPartition,
    access,
    active_devices,
    devices,
    interfaces,
    suggested,
)
from records.machine.devices import Device, Port
from records.machine.host import NumaNode, memory_nodes, nodes_with_cores
from records.text import one_line

_WIDTH = 98
#: Longest job that is requested, seconds, where a partition allows more.
_LONGEST_S = 4 * 3600
#: Interfaces of `srun` to the application's MPI, by what begins the name of its module.
_PMI = {"openmpi": "pmix", "mpich": "pmi2", "mvapich": "pmi2", "cray-mpich": "cray_shasta"}

_TEMPLATES = Path(__file__).with_name("templates")


def _filled(template: str, **values: object) -> str:
    """A template with its values, without its end of line."""
    text = (_TEMPLATES / f"{template}.py.in").read_text(encoding="utf-8")
    return Template(text).substitute(values).rstrip("\n")


def config_text(name: str, found: ClusterFacts) -> str:
    """The file. It needs no edit to be valid."""
    made = environments(found)
    names = [each for each in ("spack", "modules", "wheels") if each in made]
    partitions = "\n".join(_partition(each, found, names) for each in found.partitions)
    blocks = [*made.values(), *_without_modules(found)]
    text = _filled(
        "config",
        name=name,
        hostnames=f'r"{host_pattern(found.host)}"',
        modules_system=json.dumps(found.modules_system),
        partitions=textwrap.indent(partitions, " " * 16),
        environments=textwrap.indent("\n".join(blocks), " " * 8),
    )
    return f"{text}\n"


def host_pattern(host: str) -> str:
    """A regular expression for this host and those that differ in a number only."""
    short = host.partition(".")[0]
    return re.sub(r"[0-9]+", lambda _: r"\d+", re.escape(short)) + r"\b"


def _partition(partition: SlurmPartition, found: ClusterFacts, environs: Sequence[str]) -> str:
    direct = set(_PMI.values()) & set(found.mpi)
    listed = ", ".join(found.mpi) or "nothing"
    limit_s = partition.limit_s
    return _filled(
        "partition",
        nodes=partition.nodes,
        limit_source=f"longest job {_limit(limit_s)}" if limit_s else "jobs of any length",
        name=json.dumps(partition.name),
        accounting=_comment(found.settings.get("AccountingStorageType", "unknown")),
        launcher_source=_comment(f"srun --mpi=list: {listed}"),
        launcher='"srun"' if direct else '"mpirun"',
        access_source=_comment(_access_source(partition, found)),
        access=json.dumps(access(partition, found.accounts)),
        environs=json.dumps(environs),
        time_limit=json.dumps(_limit(min(limit_s or _LONGEST_S, _LONGEST_S))),
    )


def _access_source(partition: SlurmPartition, found: ClusterFacts) -> str:
    whole = "whole nodes only" if partition.whole_nodes else "no --exclusive by itself"
    if not found.accounts:
        return f"{whole}; sacctmgr shows no account: if one is required, --account=NAME"
    names = ", ".join(found.accounts)
    default = [name for name, is_default in found.accounts.items() if is_default]
    taken = f", {default[0]} without --account" if default else ""
    return f"{whole}; accounts (sacctmgr): {names}{taken}"


def _limit(seconds: int) -> str:
    """In ReFrame's form."""
    minutes, rest_s = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    return "".join([*parts, f"{rest_s}s" if rest_s else ""]) or "0s"


def environments(found: ClusterFacts) -> dict[str, str]:
    """Name -> text. `modules` only if a module provides a workload."""
    chosen = suggested(found.modules)
    source = "Built by `nimc spack build`, once `nimc spack setup` was run."
    made = {"spack": _environment("spack", source, pmi=pmi("openmpi", found.mpi))}
    if "workload" in chosen:
        more = f'"modules": {json.dumps(list(chosen.values()))},\n    '
        of_mpi = pmi(chosen.get("mpi", ""), found.mpi)
        made["modules"] = _environment("modules", "module --terse --default avail", more, of_mpi)
    note = "Wheels, MPICH included: work anywhere, but not over the fast network."
    if not (pmi2 := pmi("mpich", found.mpi)):
        note += " srun has no pmi2 (srun --mpi=list): the MPICH of the wheels needs it."
    others = {node["host"]["processor"]: node["host"]["cpu_model"] for node in found.nodes}
    if different := [model for kind, model in others.items() if kind != found.processor]:
        note += f" Nodes have {different[0]}, unlike this host, where sources are compiled: set"
        note += ' "cflags": ["-march=..."].'
    made["wheels"] = _environment("wheels", note, "", pmi2, ftn="")
    return made


def _environment(
    name: str, source: str, more: str = "", pmi: str = "", ftn: str = "gfortran"
) -> str:
    return _filled(
        "environment",
        source=_comment(source),
        name=json.dumps(name),
        ftn=json.dumps(ftn),
        more=more,
        env_vars=json.dumps([["SLURM_MPI_TYPE", pmi]] if pmi else []),
    )


def pmi(module: str, offered: Sequence[str]) -> str:
    """What `srun` and the MPI of a module have in common; empty if unknown."""
    name = module.lower()
    wanted = next((kind for start, kind in _PMI.items() if name.startswith(start)), "")
    return wanted if wanted in offered else ""


def _without_modules(found: ClusterFacts) -> list[str]:
    """A comment in the place of the environment `modules`."""
    chosen = suggested(found.modules)
    if "workload" in chosen:
        return []
    listed = ", ".join(chosen.values()) or "no gcc and no MPI"
    interface = pmi(chosen.get("mpi", ""), found.mpi) or "pmix"
    return [
        f"# Modules (module --terse --default avail): {listed}, and no workload.",
        "# Modules that others hide: module spider lammps. To use them, fill in, and add",
        '# "modules" to environs above:',
        f'# {{"name": "modules", "modules": {json.dumps([*chosen.values(), "lammps/VERSION"])},',
        '#  "cc": "gcc", "cxx": "g++", "ftn": "gfortran", "features": ["modules"],',
        f'#  "env_vars": [["SLURM_MPI_TYPE", "{interface}"]], "target_systems": ["*"]}},',
    ]


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


def site_text(found: ClusterFacts) -> str:
    """The file. It needs no edit to be valid."""
    lines = [
        "# Made by `nimc init`; docs/add-a-machine.md explains every key. A comment says where",
        "# each value is from; lines to fill in are comments as well.",
        *(line for entry in entries(found) for line in ("", *entry.lines())),
    ]
    return "\n".join(lines) + "\n"


def entries(found: ClusterFacts) -> list[SiteEntry]:
    """All keys in the order of the file."""
    target, nodes = found.target.name, str(found.target.nodes)
    spec = found.settings.get("AllowSpecResourcesUsage")
    core_spec = None if spec is None else str(spec.lower() in ("yes", "1")).lower()
    asked = "scontrol show config: AllowSpecResourcesUsage"
    return [
        _description(found),
        _origins(found),
        *_writers(found),
        _nic(found),
        SiteEntry("partition", _scalar(target), "scontrol show partition: the default one"),
        SiteEntry("core_spec", core_spec, asked, "true, false"),
        SiteEntry("nodes", nodes, f"scontrol show partition: all of {target}"),
        SiteEntry("node_mtti", None, "A node's mean time to interrupt, from operators.", "5y"),
        _facts(found),
    ]


def _description(found: ClusterFacts) -> SiteEntry:
    name = found.settings.get("ClusterName") or "a cluster"
    if not found.nodes:
        return SiteEntry("description", _scalar(name), "scontrol show config: ClusterName")
    host = found.nodes[0]["host"]
    text = f"{name}, {host['sockets']} sockets a node, {host['cpu_model']}"
    source = f"scontrol show config: ClusterName; /proc/cpuinfo of {found.nodes[0]['node']}"
    return SiteEntry("description", json.dumps(text, ensure_ascii=False), source)


def _origins(found: ClusterFacts) -> SiteEntry:
    origins = found.origins
    if origins.policy == "hetjob":
        took = "Slurm took such a job (on hold, and cancelled)"
        known = took if found.hetjob_asked else "not known whether Slurm takes such a job"
        value = f"\n  policy: hetjob\n  nodes: 1\n  partition: {_scalar(found.target.name)}"
        return SiteEntry("origins", value, f"Origins in a heterogeneous job: {known}.")
    if origins.policy == "same_job":
        refused = f"Slurm refuses heterogeneous jobs: {found.hetjob_refused}"
        value = "\n  policy: same_job\n  nodes: 1"
        return SiteEntry("origins", value, f"The last node of each job: {refused}")
    return SiteEntry("origins", "\n  policy: same_host", "The partition has one node only.")


def _writers(found: ClusterFacts) -> list[SiteEntry]:
    """Injector, device, rails and interface."""
    names = ", ".join(node["node"] for node in found.nodes)
    rdma, over = devices(found.nodes), interfaces(found.nodes)
    active = {node["node"]: _words(active_devices(node["host"])) for node in found.nodes}
    without = [node for node, words in active.items() if not words]
    everywhere = bool(active) and not without
    made = [_injector(found, everywhere)]
    if rdma:
        source = f"/sys/class/infiniband of {names}"
        if len(set(rdma[0].names.values())) > 1:
            source += f": the PCI address of {_by_node(rdma[0].names)}"
        made.append(SiteEntry("device", _scalar(rdma[0].name), source))
        alike = [each for each in rdma if each.rate_b_s == rdma[0].rate_b_s]
        if len(alike) > 1:
            rails = "".join(
                f"\n  - {{device: {_scalar(each.name)}"
                + (f", numa_node: {each.numa_node}}}" if each.numa_node is not None else "}")
                for each in sorted(alike, key=lambda each: each.name)
            )
            made.append(SiteEntry("rails", rails, f"active devices of the same rate on {names}"))
    elif everywhere:
        source = "No active port has the same device, by name or PCI address, on all nodes: "
        made.append(SiteEntry("device", None, source + _by_node(active), "NAME, or PCI-ADDRESS"))
    elif over:
        source = f"no active RDMA device on {', '.join(without)}: the interface counts what arrives"
        made.append(SiteEntry("device", _scalar(over[0]), source))
    else:
        source = f"Unknown: {found.looked.why or 'nodes have no device and no interface in common'}"
        made.append(SiteEntry("device", None, source, "NAME in /sys/class/infiniband"))
    if over:
        more = f"; also there: {', '.join(over[1:])}" if over[1:] else ""
        source = f"/sys/class/net of {names}, the fastest with an address on all{more}"
        made.append(SiteEntry("interface", _scalar(over[0]), source))
    else:
        source = "The network interface of conductor and agents, on all nodes"
        if found.nodes:
            source += f", which have none in common: {_by_node(_with_address(found))}"
        made.append(SiteEntry("interface", None, f"{source}.", "NAME in /sys/class/net"))
    return made


def _words(active: Sequence[tuple[Device, Port]]) -> str:
    """`mlx5_0:1 at 0000:0c:00.0` of each active port."""
    at = {f"{each.name}:{port.number}": each.pci for each, port in active}
    return ", ".join(f"{name} at {pci}" if pci else name for name, pci in at.items())


def _by_node(words: Mapping[str, str]) -> str:
    return "; ".join(f"{node}: {text or 'none'}" for node, text in words.items())


def _with_address(found: ClusterFacts) -> dict[str, str]:
    return {node["node"]: ", ".join(in_common([node["addresses"]])) for node in found.nodes}


def _injector(found: ClusterFacts, rdma: bool) -> SiteEntry:
    allowed = "allowed: perftest (RDMA), ucx, mpi_put, fabtests, copy_engine"
    if not found.nodes:
        return SiteEntry("injector", "perftest", f"Not looked for; {allowed}")
    name = "perftest" if rdma else "ucx"
    missing = ", ".join(node["node"] for node in found.nodes if node["injectors"][name])
    if missing and rdma and not any(node["injectors"]["ucx"] for node in found.nodes):
        return SiteEntry("injector", "ucx", f"{missing} has no {name}, but ucx_perftest")
    reason = "RDMA devices" if rdma else "no active RDMA device"
    state = f"missing on {missing}: install it" if missing else "ready on all"
    return SiteEntry("injector", name, f"{reason} on the nodes; {state}; {allowed}")


def _nic(found: ClusterFacts) -> SiteEntry:
    rate, source = "200Gbit/s", "From the data sheet; processing: onload or offload."
    for first in devices(found.nodes)[:1]:
        if first.rate_b_s:
            rate = f"{first.rate_b_s * 8 / 1e9:g}Gbit/s"
            source += f" The port of {first.name} reports {rate}."
    allowed = f"{{model: NAME, processing: offload, link_rate: {rate}}}"
    return SiteEntry("nic", None, source, allowed)


def _facts(found: ClusterFacts) -> SiteEntry:
    shapes = found.shapes.get(found.target.name, [])
    if not shapes:
        return SiteEntry("facts", None, "One compute node.", "see docs/add-a-machine.md")
    (shape, count), *more = shapes
    others = sum(number for _, number in more)
    mixed = f"; {others} nodes of {found.target.name} differ from {count}" if others else ""
    slurm = f"scontrol show node{mixed}"
    if not found.nodes:
        memory = "SIZE" if shape.memory_mib is None else _size(shape.memory_mib * 2**20)
        flow = (
            f"{{cores: {shape.cores}, threads_per_core: {shape.cpus_per_core},"
            f" sockets: {shape.sockets}, numa_nodes: N, llc: 512MiB, memory: {memory}}}"
        )
        source = f"{slurm}; for NUMA nodes and the last-level caches of all sockets: lscpu there"
        return SiteEntry("facts", None, source, flow)
    facts, where = _facts_of(found, shape), found.nodes[0]["node"]
    if "SIZE" in facts.values():
        source = f"{slurm}; the kernel of {where} does not report every size: SIZE is unknown"
        flow = ", ".join(f"{key}: {each}" for key, each in facts.items())
        return SiteEntry("facts", None, source, f"{{{flow}}}")
    source = f"/sys, /proc of {where}; threads_per_core, and the most of cores and memory: {slurm}"
    value = "".join(f"\n  {key}: {each}" for key, each in facts.items())
    return SiteEntry("facts", value, source)


def _facts_of(found: ClusterFacts, shape: NodeShape) -> dict[str, object]:
    """Facts of the first node as jobs get it; `SIZE` for what is unknown."""
    host = found.nodes[0]["host"]
    facts: dict[str, object] = {
        # Slurm may keep cores from jobs.
        "cores": min(host["cores"], shape.cores),
        "threads_per_core": shape.cpus_per_core,
        "sockets": host["sockets"],
    }
    there = [NumaNode(**each) for each in host["numa_nodes"]]
    numbers = nodes_with_cores(there) or [0]
    facts["numa_nodes"] = len(numbers) if numbers == list(range(len(numbers))) else numbers
    if bare := memory_nodes(there):
        facts["memory_nodes"] = bare
    rdma = devices(found.nodes)
    if rdma and rdma[0].numa_node is not None:
        facts["nic_node"] = rdma[0].numa_node
    configured_b = shape.memory_mib and shape.memory_mib * 2**20
    known_b = [size_b for size_b in (host["memory_b"], configured_b) if size_b]
    facts["llc"] = _size(host["llc_total_b"]) if host["llc_total_b"] else "SIZE"
    facts["memory"] = _size(min(known_b)) if known_b else "SIZE"
    return facts


def _size(size_b: int) -> str:
    """In the largest unit that gives a whole number."""
    units = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
    return next(f"{size_b // factor}{unit}" for unit, factor in units if size_b % factor == 0)


def _scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)  # YAML takes no surrogates


def unknown(made: Sequence[SiteEntry]) -> list[str]:
    """Keys to fill in."""
    return [entry.key for entry in made if entry.value is None]
