"""A look at a target and its origins in a job, and what `nimc doctor --in-job` makes of it.

ReFrame submits the job (`node_look_check`). Each function of a finding gives one line from what
nodes left; `examine` has them all.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nimc.campaign.settings import settings_of, target_partitions
from nimc.cluster.doctor import Finding, gbit_s, inactive, lacking, port_words
from nimc.run.runner import why_failed
from nimc.run.session import SlurmWatch, find_reframe, run_session
from records import processes
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.interrupts import Interrupts
from records.machine import devices, slurm
from records.machine.site import Machine, Origins
from records.machine.site import load as load_machine

#: Names of findings.
_JOB, _HETJOB = "job on nodes", "heterogeneous job"


def examine(
    name: str, results: Path, wait_s: float, tell: Callable[[str], None], root: Path = ROOT
) -> list[Finding]:
    """Look at the nodes of a machine in a job; `tell` says so before it is submitted.

    Raises InputError for a machine without Slurm, Stopped after a signal; the job is gone then.
    """
    site, config = load_machine(name, root), root / "configs" / f"{name}.py"
    settings = settings_of(config)
    if settings.fault:
        raise InputError(f"configs/{name}.py: cannot be read: {settings.fault}")
    parts = [part for part in settings.partitions if part.get("scheduler") in slurm.SCHEDULERS]
    targets = target_partitions(parts, site.partition)
    if not targets:
        raise InputError(
            f"--in-job: configs/{name}.py has no partition of Slurm for the targets; allowed:"
            " machines whose jobs Slurm starts"
        )
    os.environ.update(settings.environment)  # as ReFrame, which runs the file (SLURM_CONF)
    place = Place(config, targets[0]["name"], targets[0]["environs"][0], site.origins)
    results.mkdir(parents=True, exist_ok=True)
    try:
        return findings(look(place, results.absolute(), wait_s, tell), site)
    except MachineError as error:
        return [lacking(_JOB, str(error), "see 'slurm' above", needed=True)]


# The job.


#: Begins the name of the job's folder.
PREFIX = ".nimc-look-"
_CHECK = Path(__file__).with_name("node_look_check.py")
#: Begins what the check itself says.
_SANITY = "ReFrame failed in 'sanity': sanity error: "
#: Begins each error of sbatch; ends what ReFrame quotes of it.
_SBATCH, _ENDS = "sbatch: error: ", " --- stderr ---"


@dataclass(frozen=True)
class JobLook:
    """What a job found."""

    #: Slurm's id; None if it took no job.
    job: str | None
    #: Why not all nodes answered, in one line; None if they did.
    why: str | None = None
    #: One record for each node that could write it (`node_look`), targets first.
    nodes: list[dict[str, Any]] = field(default_factory=list)


def nodes_of(origins: Origins) -> int:
    """Nodes of a job: one target, and the origins."""
    return 1 + (0 if origins.policy == "same_host" else origins.nodes)


@dataclass(frozen=True)
class Place:
    """Where ReFrame runs the check: a configuration, whose system has its name, and the origins."""

    config: Path
    partition: str
    environ: str
    origins: Origins


def look(place: Place, parent: Path, wait_s: float, tell: Callable[[str], None]) -> JobLook:
    """Run the check.

    Its files are in a new folder in `parent`, which nodes should see. Whatever ends this, the job
    and the folder are gone. Raises MachineError if Slurm does not answer, Stopped after a signal.
    """
    processes.become_subreaper()
    tell(f"ReFrame submits a job of {nodes_of(place.origins)} nodes to {place.partition}")
    with Interrupts() as interrupts, tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as path:
        folder, told = Path(path), set[str]()
        watch = SlurmWatch(folder, tell)

        def tick() -> None:
            answered = any(folder.glob("[0-9]*.json"))  # ReFrame may wait on without accounting
            watch.look(time.monotonic(), begun=answered, finished=False)
            if watch.waits and watch.waits not in told:
                told.add(watch.waits)
                tell(watch.waits)

        try:
            command = _command(place, folder, wait_s)
            status = run_session(command, folder, folder / "reframe.log", interrupts, tick)
        finally:
            slurm.cancel(folder)
        return collected(folder, status)


def _command(place: Place, folder: Path, wait_s: float) -> list[str]:
    """ReFrame with the check, whose request is written."""
    nodes = nodes_of(place.origins)
    request = {
        "origins": (place.origins if nodes > 1 else Origins(policy="same_job")).model_dump(),
        "nodes": nodes,
        "paths": _needed_paths(folder.parent),
    }
    (folder / "request.json").write_text(json.dumps(request))
    values = {
        "request": str(folder / "request.json"),
        "max_pending_time": f"{max(1, round(wait_s))}s",
    }
    return [
        *(find_reframe(), "-C", str(place.config), "-c", str(_CHECK), "-r"),
        *(f"--system={place.config.stem}:{place.partition}", "-p", f"^{place.environ}$"),
        *(f"--{name}={folder / name}" for name in ("stage", "output", "perflogdir")),
        f"--report-file={folder / 'reframe.json'}",
        *(word for name in values for word in ("-S", f"NodeLook.{name}={values[name]}")),
    ]


def _needed_paths(results: Path) -> list[str]:
    """What nodes must see: checkout, Python and where it was made from, results, stage folder.

    `nimc run` stages in the results; ReFrame alone in its prefix or the current folder.
    """
    prefix = os.environ.get("RFM_STAGE_DIR") or os.environ.get("RFM_PREFIX") or "."
    paths = [str(ROOT), sys.executable, os.path.realpath(sys.executable), str(results)]
    return list(dict.fromkeys([*paths, os.path.abspath(prefix)]))


def collected(folder: Path, status: int) -> JobLook:
    """What a job left in its folder; `status` is that of ReFrame."""
    files = sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem))
    nodes = [json.loads(path.read_text()) for path in files]
    job = None
    with suppress(OSError, ValueError, LookupError):
        report = json.loads((folder / "reframe.json").read_text())
        job = report["runs"][0]["testcases"][0]["jobid"]
    return JobLook(job and str(job), _reason(why_failed(status, folder)), nodes)


def _reason(why: str | None) -> str | None:
    """What the check, or sbatch, said; else what ReFrame says."""
    if why is None or _SBATCH not in why:
        return why and why.removeprefix(_SANITY)
    _, *errors = why.removesuffix(_ENDS).split(_SBATCH)
    return "Slurm refuses the job: " + "; ".join(error.strip() for error in errors)


# What it shows, a line each.


def findings(looked: JobLook, site: Machine) -> list[Finding]:
    """All findings of a job."""
    rows = []
    if site.origins.policy in ("hetjob", "reservation"):
        rows.append(hetjob(looked, site.origins))
    if looked.job or not rows:
        rows.append(ran(looked, site.origins))
    if looked.nodes:
        rows += [sees(looked), locks(looked), interface(looked, site)]
        wanted = [rail.device for rail in site.rails] or ([site.device] if site.device else [])
        rows += [device(name, looked, site) for name in wanted]
        rows.append(injector(looked, site))
    return rows


def hetjob(looked: JobLook, origins: Origins) -> Finding:
    """Whether Slurm took targets and origins as a heterogeneous job."""
    if looked.job:
        detail = f"Slurm accepts origins in {origins.partition or 'the default partition'}"
        return Finding(_HETJOB, "ok", detail, needed=True)
    remedy = "origins.policy: same_job, or another origins.partition, in site/"
    return lacking(_HETJOB, str(looked.why), remedy, needed=True)


def ran(looked: JobLook, origins: Origins) -> Finding:
    """Whether the job ran on as many nodes as it has."""
    if len(looked.nodes) == nodes_of(origins):
        return Finding(_JOB, "ok", outcome(looked), needed=True)
    remedy = "nodes must see the results folder, and Python there must start"
    if not looked.nodes:
        remedy = "try later, or with a longer --wait" if looked.job else "see access in configs/"
    return lacking(_JOB, outcome(looked), remedy, needed=True)


def outcome(looked: JobLook) -> str:
    """How the job went, in one line."""
    if looked.why:
        return looked.why
    target, *origins = (node["node"] for node in looked.nodes)
    return f"job {looked.job}: target {target}, origins {', '.join(origins) or 'none'}"


def sees(looked: JobLook) -> Finding:
    """Whether all nodes see the checkout, Python, results and stage folder."""
    what, nodes = "shared folders", looked.nodes
    unseen = [f"{node['node']} does not see {path}" for node in nodes for path in node["unseen"]]
    if unseen:
        remedy = "keep it on a file system that all nodes mount"
        return lacking(what, "; ".join(unseen), remedy, needed=True)
    names = ", ".join(node["node"] for node in nodes)
    detail = f"{names} see the checkout, Python, the results and the stage folder"
    return Finding(what, "ok", detail, needed=True)


def locks(looked: JobLook) -> Finding:
    """Whether a lock of the first node in the results folder keeps the others out."""
    first, *others = looked.nodes
    if not others:
        return Finding("locks", "ok", "one node only: not tried from another")
    late = [node["node"] for node in looked.nodes if node["lock"] == "late"]
    wrong = [node["node"] for node in others if node["lock"] == "unseen"]
    at = f"the lock of {first['node']} in the results folder"
    if not late and not wrong:
        who = ", ".join(node["node"] for node in others)
        return Finding("locks", "ok", f"{who} sees {at}", needed=True)
    detail = f"{', '.join(wrong)} does not see {at}"
    if late:
        detail = f"{', '.join(late)} waited 30 s for a file of the other node"
    remedy = "mount it with locks (Lustre: -o flock), or use another --results"
    return lacking("locks", detail, remedy, needed=True)


def interface(looked: JobLook, site: Machine) -> Finding:
    """Whether every node has the interface of the site file, with an address."""
    what = "interface on nodes"
    there = {node["node"]: node["addresses"] for node in looked.nodes}
    shared = ", ".join(in_common(list(there.values())))
    if not shared:
        of_each = [f"{node}: {', '.join(in_common([of]))}" for node, of in there.items()]
        shared = f"none ({'; '.join(of_each)})"
    others = f"interfaces of all nodes: {shared}"
    if site.interface is None:
        return lacking(what, f"none in site/{site.name}.yaml; {others}", "set interface")
    without = [node for node, addresses in there.items() if not addresses.get(site.interface)]
    if without:
        detail = f"{', '.join(without)}: no {site.interface} with an IPv4 address; {others}"
        return lacking(what, detail, f"interface in site/{site.name}.yaml", needed=True)
    addresses = ", ".join(f"{node} {of[site.interface]}" for node, of in there.items())
    return Finding(what, "ok", f"{site.interface}: {addresses}", needed=True)


def in_common(addresses: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Interfaces with an address on every node."""
    names = addresses[0] if addresses else {}
    return [name for name in names if all(of_node.get(name) for of_node in addresses)]


def device(name: str, looked: JobLook, site: Machine) -> Finding:
    """Whether every node has a device, or rail, of the site file, with an active port."""
    what, file = f"{name} on nodes", f"device and rails in site/{site.name}.yaml"
    hosts = {node["node"]: node["host"] for node in looked.nodes}
    rdma = {node: devices_of(host) for node, host in hosts.items()}
    rates = {node: device_rate(host, name) for node, host in hosts.items()}
    there = [named for of in rdma.values() if (named := devices.named(name, of))]
    if without := [node for node, rate in rates.items() if rate is None]:
        detail = "; ".join(f"{node}: no {name}, but {_there(hosts[node])}" for node in without)
        address = there[0].pci if there else None
        if address and all(devices.named(address, of) for of in rdma.values()):
            file = f"{file}: {address}"
        return lacking(what, detail, file, needed=True)
    detail = ", ".join(f"{node} {rate}" for node, rate in rates.items())
    for reason in filter(None, (inactive(name, of) for of in rdma.values())):
        return lacking(what, f"{detail}: {reason}", file, needed=True)
    at = [named.pci for named in there]
    if len(set(at)) > 1:
        other = f"{detail}; not the same device: at {', '.join(map(str, at))}"
        return lacking(what, other, f"{file}: its PCI address")
    return Finding(what, "ok", detail, needed=True)


def devices_of(host: Mapping[str, Any]) -> list[devices.Device]:
    """The RDMA devices that a node has recorded."""
    return [devices.of_record(record) for record in host["rdma"]]


def _there(host: Mapping[str, Any]) -> str:
    """RDMA devices with their addresses, and interfaces."""
    rdma = [f"{of.name} at {of.pci}" if of.pci else of.name for of in devices_of(host)]
    names = [*rdma, *(interface["name"] for interface in host["interfaces"])]
    return ", ".join(names) or "nothing else"


def device_rate(host: Mapping[str, Any], name: str) -> str | None:
    """State and rate of an RDMA device or interface in words; None if the node has none."""
    if device := devices.named(name, devices_of(host)):
        return f"({', '.join(map(port_words, device.ports)) or device.transport})"
    for interface in host["interfaces"]:
        if interface["name"] == name:
            return f"(up{gbit_s(interface['rate_b_s'])})"
    return None


def injector(looked: JobLook, site: Machine) -> Finding:
    """Whether every node has the program of the writers."""
    what = f"{site.injector} on nodes"
    reasons = {node["node"]: node["injectors"][site.injector] for node in looked.nodes}
    without = [node for node, reason in reasons.items() if reason]
    if not without:
        return Finding(what, "ok", f"ready on {', '.join(reasons)}", needed=True)
    lack, _, remedy = reasons[without[0]].partition(": ")
    return lacking(what, f"{', '.join(without)}: {lack}", remedy, needed=True)
