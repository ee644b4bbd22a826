"""The text of `site/MACHINE.yaml`: every value with its source, the unknown as comments."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from nimc.base.text import one_line
from nimc.cluster.init.learn import ClusterFacts, devices, interfaces

_PLAIN = re.compile(r"[A-Za-z][\w./-]*", re.ASCII)
#: What YAML does not take for text.
_WORDS = ("true", "false", "yes", "no", "on", "off", "y", "n", "null")
_WIDTH = 98


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
        "# Made by `nimc init`; docs/add-a-machine.md explains every key. A comment says where"
    ]
    lines += ["# each value is from; lines to fill in are comments as well."]
    for entry in entries(found):
        lines += ["", *entry.lines()]
    return "\n".join(lines) + "\n"


def entries(found: ClusterFacts) -> list[SiteEntry]:
    """All keys in the order of the file."""
    return [
        _description(found),
        _origins(found),
        *_writers(found),
        _nic(found),
        SiteEntry(
            "partition", _scalar(found.target.name), "scontrol show partition: the default one"
        ),
        _core_spec(found),
        SiteEntry(
            "nodes", str(found.target.nodes), f"scontrol show partition: all of {found.target.name}"
        ),
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
        requested = "Slurm took such a job (on hold, and cancelled)"
        requested = requested if found.hetjob_asked else "not known whether Slurm takes such a job"
        value = f"\n  policy: hetjob\n  nodes: 1\n  partition: {_scalar(found.target.name)}"
        return SiteEntry("origins", value, f"Origins in a heterogeneous job: {requested}.")
    if origins.policy == "same_job":
        reason = (
            f"The last node of each job: Slurm refuses heterogeneous jobs: {found.hetjob_refused}"
        )
        return SiteEntry("origins", "\n  policy: same_job\n  nodes: 1", reason)
    return SiteEntry("origins", "\n  policy: same_host", "The partition has one node only.")


def _writers(found: ClusterFacts) -> list[SiteEntry]:
    """Injector, device, rails and interface."""
    names = ", ".join(node["node"] for node in found.nodes)
    rdma, over = devices(found.nodes), interfaces(found.nodes)
    made = [_injector(found, bool(rdma))]
    if rdma:
        made.append(SiteEntry("device", _scalar(rdma[0].name), f"/sys/class/infiniband of {names}"))
        alike = [each for each in rdma if each.rate_b_s == rdma[0].rate_b_s]
        if len(alike) > 1:
            rails = "".join(
                f"\n  - {{device: {_scalar(each.name)}"
                + (f", numa_node: {each.numa_node}}}" if each.numa_node is not None else "}")
                for each in sorted(alike, key=lambda each: each.name)
            )
            made.append(SiteEntry("rails", rails, f"active devices of the same rate on {names}"))
    elif over:
        source = f"no active RDMA device on {names}: the interface counts what arrives"
        made.append(SiteEntry("device", _scalar(over[0]), source))
    else:
        source = f"Unknown: {found.looked.why or 'nodes have no device and no interface in common'}"
        made.append(SiteEntry("device", None, source, "NAME in /sys/class/infiniband"))
    if over:
        more = f"; also there: {', '.join(over[1:])}" if over[1:] else ""
        source = f"/sys/class/net of {names}, the fastest with an address on all{more}"
        made.append(SiteEntry("interface", _scalar(over[0]), source))
    else:
        source = "The network interface of conductor and agents, on all nodes."
        made.append(SiteEntry("interface", None, source, "NAME in /sys/class/net"))
    return made


def _injector(found: ClusterFacts, rdma: bool) -> SiteEntry:
    name = "perftest" if rdma else "ucx"
    if not found.nodes:
        name = "perftest"
        return SiteEntry("injector", name, "Not looked for; allowed: perftest (RDMA), ucx, mpi_put")
    missing = [node["node"] for node in found.nodes if node["injectors"][name]]
    other = "ucx" if rdma else ""
    if missing and other and not any(node["injectors"][other] for node in found.nodes):
        return SiteEntry("injector", other, f"{', '.join(missing)} has no {name}, but ucx_perftest")
    reason = "RDMA devices" if rdma else "no active RDMA device"
    state = f"missing on {', '.join(missing)}: install it" if missing else "ready on all"
    allowed = "perftest, ucx, mpi_put, fabtests"
    return SiteEntry("injector", name, f"{reason} on the nodes; {state}; allowed: {allowed}")


def _nic(found: ClusterFacts) -> SiteEntry:
    rdma = devices(found.nodes)
    rate = f"{rdma[0].rate_b_s * 8 / 1e9:g}Gbit/s" if rdma and rdma[0].rate_b_s else "200Gbit/s"
    source = "From the data sheet; processing: onload or offload."
    if rdma and rdma[0].rate_b_s:
        source += f" The port of {rdma[0].name} reports {rate}."
    return SiteEntry(
        "nic", None, source, f"{{model: NAME, processing: offload, link_rate: {rate}}}"
    )


def _core_spec(found: ClusterFacts) -> SiteEntry:
    allowed = found.settings.get("AllowSpecResourcesUsage")
    value = None if allowed is None else str(allowed.lower() in ("yes", "1")).lower()
    return SiteEntry(
        "core_spec", value, "scontrol show config: AllowSpecResourcesUsage", "true, false"
    )


def _facts(found: ClusterFacts) -> SiteEntry:
    shapes = found.shapes.get(found.target.name, [])
    if not shapes:
        return SiteEntry("facts", None, "One compute node.", "see docs/add-a-machine.md")
    shape, count = shapes[0]
    others = sum(number for _, number in shapes[1:])
    mixed = f"; {others} nodes of {found.target.name} differ from {count}" if others else ""
    slurm = f"scontrol show node{mixed}"
    memory = "SIZE" if shape.memory_mib is None else _size(shape.memory_mib * 2**20)
    if not found.nodes or not found.nodes[0]["host"]["llc_total_b"]:
        flow = (
            f"{{cores: {shape.cores}, threads_per_core: {shape.cpus_per_core},"
            f" sockets: {shape.sockets}, numa_nodes: N, llc: 512MiB, memory: {memory}}}"
        )
        source = f"{slurm}; for NUMA nodes and the last-level caches of all sockets: lscpu there"
        return SiteEntry("facts", None, source, flow)
    host = found.nodes[0]["host"]
    facts: dict[str, object] = {
        # Slurm may keep cores from jobs.
        "cores": min(host["cores"], shape.cores),
        "threads_per_core": shape.cpus_per_core,
        "sockets": host["sockets"],
        "numa_nodes": max(1, sum(bool(each["cpus"]) for each in host["numa_nodes"])),
    }
    if alone := [
        each["number"] for each in host["numa_nodes"] if not each["cpus"] and each["memory_b"]
    ]:
        facts["memory_nodes"] = alone
    rdma = devices(found.nodes)
    if rdma and rdma[0].numa_node is not None:
        facts["nic_node"] = rdma[0].numa_node
    facts["llc"] = _size(host["llc_total_b"])
    configured_b = shape.memory_mib * 2**20 if shape.memory_mib else host["memory_b"]
    facts["memory"] = _size(min(host["memory_b"], configured_b))
    where = found.nodes[0]["node"]
    source = f"/sys, /proc of {where}; threads_per_core, and the most of cores and memory: {slurm}"
    return SiteEntry(
        "facts", "".join(f"\n  {key}: {value}" for key, value in facts.items()), source
    )


def _size(size_b: int) -> str:
    """In the largest unit that gives a whole number."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_b % factor == 0:
            return f"{size_b // factor}{unit}"
    return f"{size_b}B"


def _scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)  # YAML takes no surrogates


def unknown(made: Sequence[SiteEntry]) -> list[str]:
    """Keys to fill in."""
    return [entry.key for entry in made if entry.value is None]
