"""A look at a target and its origins in a job, and what `nimc doctor --in-job` makes of it.

ReFrame submits the job (`node_look_check`).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nimc.campaign.settings import settings_of, target_partitions
from nimc.cluster.doctor import Finding, gbit_s, inactive, lacking, port_words
from nimc.run.runner import why_failed
from nimc.run.session import SlurmWatch, find_reframe, run_session
from records import processes
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.files import private_lock
from records.interrupts import Interrupts
from records.machine import devices, slurm
from records.machine.site import Machine, Origins
from records.machine.site import load as load_machine

#: Names of findings.
_JOB, _HETJOB = "job on nodes", "heterogeneous job"
#: Begins the name of the job's folder.
PREFIX = ".nimc-look-"
_CHECK = Path(__file__).with_name("node_look_check.py")
#: Begins each error of sbatch; ends what ReFrame quotes of it.
_SBATCH, _ENDS = "sbatch: error: ", " --- stderr ---"


class Place(NamedTuple):
    """Where ReFrame runs the check: a configuration, whose system has its name, and the origins."""

    config: Path
    partition: str
    environ: str
    origins: Origins
    #: That of the writers, if its name is known.
    device: str | None = None


@dataclass(frozen=True)
class JobLook:
    """What a job found."""

    #: Slurm's id; None if it took no job.
    job: str | None
    #: Why not all nodes answered, in one line; None if they did.
    why: str | None = None
    #: One record for each node that could write it (`node_look`), targets first.
    nodes: list[dict[str, Any]] = field(default_factory=list)


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
    targets = target_partitions(settings.partitions, site.partition)
    part = next((of for of in targets if of.get("scheduler") in slurm.SCHEDULERS), None)
    if part is None:
        raise InputError(
            f"--in-job: configs/{name}.py has no partition of Slurm for the targets; allowed:"
            " machines whose jobs Slurm starts"
        )
    os.environ.update(settings.environment)  # as ReFrame, which runs the file (SLURM_CONF)
    place = Place(config, part["name"], part["environs"][0], site.origins, site.device)
    results.mkdir(parents=True, exist_ok=True)
    try:
        return list(findings(look(place, results.absolute(), wait_s, tell), site))
    except MachineError as error:
        return [lacking(_JOB, str(error), "see 'slurm' above", needed=True)]


# The job.


def look(place: Place, parent: Path, wait_s: float, tell: Callable[[str], None]) -> JobLook:
    """Run the check.

    Its files are in a new folder in `parent`, which nodes should see. Whatever ends this, the job
    and the folder are gone. Raises MachineError if Slurm does not answer, Stopped after a signal.
    """
    processes.become_subreaper()
    tell(f"ReFrame submits a job of {nodes_of(place.origins)} nodes to {place.partition}")
    told = {""}
    with (
        Interrupts() as interrupts,
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as path,
        private_lock(Path(path, "lock")) as lock,
    ):
        folder = Path(path)
        watch = SlurmWatch(folder, tell)

        def tick() -> None:
            answered = any(folder.glob("[0-9]*.json"))  # ReFrame may wait on without accounting
            watch.look(time.monotonic(), begun=answered, finished=False)
            if watch.waits not in told:
                told.add(watch.waits)
                tell(watch.waits)

        with suppress(MachineError):  # nodes say that there are no locks
            lock.take()
        try:
            command = _command(place, folder, wait_s)
            status = run_session(command, folder, folder / "reframe.log", interrupts, tick)
        finally:
            slurm.cancel(folder)
        return collected(folder, status)


def nodes_of(origins: Origins) -> int:
    """Nodes of a job: one target, and the origins."""
    return 1 + (0 if origins.policy == "same_host" else origins.nodes)


def _command(place: Place, folder: Path, wait_s: float) -> list[str]:
    """ReFrame with the check, whose request is written.

    Nodes must see checkout, Python and where it was made from, results, and the stage folder:
    `nimc run` stages in the results, ReFrame alone in its prefix or the current folder.
    """
    nodes = nodes_of(place.origins)
    prefix = os.environ.get("RFM_STAGE_DIR") or os.environ.get("RFM_PREFIX") or "."
    python = (sys.executable, os.path.realpath(sys.executable))
    paths = [str(ROOT), *python, str(folder.parent), os.path.abspath(prefix)]
    origins = place.origins if nodes > 1 else Origins(policy="same_job")
    request = {"origins": origins.model_dump(), "nodes": nodes, "paths": [*dict.fromkeys(paths)]}
    request["device"] = place.device
    (folder / "request.json").write_text(json.dumps(request))
    return [
        *(find_reframe(), "-C", str(place.config), "-c", str(_CHECK), "-r"),
        *(f"--system={place.config.stem}:{place.partition}", "-p", f"^{place.environ}$"),
        *(f"--{name}={folder / name}" for name in ("stage", "output", "perflogdir")),
        f"--report-file={folder / 'reframe.json'}",
        *("-S", f"NodeLook.request={folder / 'request.json'}"),
        *("-S", f"NodeLook.max_pending_time={max(1, round(wait_s))}s"),
    ]


def collected(folder: Path, status: int) -> JobLook:
    """What a job left in its folder; `status` is that of ReFrame."""
    files = sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem))
    job = None
    with suppress(OSError, ValueError, LookupError):
        report = json.loads((folder / "reframe.json").read_text())
        job = report["runs"][0]["testcases"][0]["jobid"]
    why = why_failed(status, folder)
    if why and _SBATCH in why:
        _, *errors = why.removesuffix(_ENDS).split(_SBATCH)
        why = "Slurm refuses the job: " + "; ".join(error.strip() for error in errors)
    why = why and why.removeprefix("ReFrame failed in 'sanity': sanity error: ")  # of the check
    return JobLook(job and str(job), why, [json.loads(path.read_text()) for path in files])


def outcome(looked: JobLook) -> str:
    """How the job went, in one line."""
    if looked.why:
        return looked.why
    target, *origins = (node["node"] for node in looked.nodes)
    return f"job {looked.job}: target {target}, origins {', '.join(origins) or 'none'}"


# What it shows, a line each.


def findings(looked: JobLook, site: Machine) -> Iterator[Finding]:
    """Whether Slurm took the job, whether it ran on all of its nodes, and what these lack."""
    origins = site.origins
    if origins.policy in ("hetjob", "reservation"):
        if not looked.job:
            remedy = "origins.policy: same_job, or another origins.partition, in site/"
            yield lacking(_HETJOB, str(looked.why), remedy, needed=True)
            return
        detail = f"Slurm accepts origins in {origins.partition or 'the default partition'}"
        yield Finding(_HETJOB, "ok", detail, needed=True)
    remedy = "nodes must see the results folder, and Python there must start"
    if not looked.nodes:
        remedy = "try later, or with a longer --wait" if looked.job else "see access in configs/"
    all_answered = len(looked.nodes) == nodes_of(origins)
    of_job = lacking(_JOB, outcome(looked), remedy, needed=True)
    yield Finding(_JOB, "ok", outcome(looked), needed=True) if all_answered else of_job
    if looked.nodes:
        yield from _of_nodes({node["node"]: node for node in looked.nodes}, site)


def _on_nodes(what: str, faults: Mapping[str, str], ok: str, remedy: str) -> Finding:
    """What every node must have; `faults`: node -> what is wrong there, if anything."""
    wrong = [f"{node}: {fault}" for node, fault in faults.items() if fault]
    if wrong:
        return lacking(what, "; ".join(wrong), remedy, needed=True)
    return Finding(what, "ok", ok, needed=True)


def _of_nodes(nodes: Mapping[str, Mapping[str, Any]], site: Machine) -> Iterator[Finding]:
    """What nodes lack; `nodes`: name -> record."""
    names, lock = ", ".join(nodes), "the lock of this host in the results folder"
    unseen = {name: ", ".join(node["unseen"]) for name, node in nodes.items()}
    yield _on_nodes(
        "shared folders",
        {name: paths and f"does not see {paths}" for name, paths in unseen.items()},
        f"{names}: see the checkout, Python, the results and the stage folder",
        "keep it on a file system that all nodes mount",
    )
    yield _on_nodes(
        "locks",
        {name: f"does not see {lock}" for name in nodes if nodes[name]["lock"] == "unseen"},
        f"{names}: see {lock}",
        "mount it with locks (Lustre: -o flock), or use another --results",
    )
    yield _interface(nodes, site)
    for device in [rail.device for rail in site.rails] or filter(None, [site.device]):
        yield _device(device, {name: node["host"] for name, node in nodes.items()}, site)
    reasons = {name: node["injectors"][site.injector] or "" for name, node in nodes.items()}
    parts = {name: reason.partition(": ") for name, reason in reasons.items()}
    yield _on_nodes(
        f"{site.injector} on nodes",
        {name: lack for name, (lack, _, _) in parts.items()},
        f"ready on {names}",
        next((remedy for lack, _, remedy in parts.values() if lack), ""),
    )


def _interface(nodes: Mapping[str, Mapping[str, Any]], site: Machine) -> Finding:
    """Whether every node has the interface of the site file, with an address."""
    what, file = "interface on nodes", f"interface in site/{site.name}.yaml"
    there = {name: node["addresses"] for name, node in nodes.items()}
    of_each = (f"{name}: {', '.join(in_common([of]))}" for name, of in there.items())
    shared = ", ".join(in_common(list(there.values()))) or f"none ({'; '.join(of_each)})"
    others = f"interfaces of all nodes: {shared}"
    if site.interface is None:
        return lacking(what, f"none in site/{site.name}.yaml; {others}", "set interface")
    addresses = {name: of.get(site.interface) for name, of in there.items()}
    lack = f"no {site.interface} with an IPv4 address; {others}"
    lacks = {name: "" if address else lack for name, address in addresses.items()}
    ok = ", ".join(f"{name} {address}" for name, address in addresses.items())
    return _on_nodes(what, lacks, f"{site.interface}: {ok}", file)


def in_common(addresses: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Interfaces with an address on every node."""
    names = addresses[0] if addresses else {}
    return [name for name in names if all(of_node.get(name) for of_node in addresses)]


def _device(name: str, hosts: Mapping[str, Mapping[str, Any]], site: Machine) -> Finding:
    """Whether every node has a device, or rail, of the site file, with an active port."""
    what, file = f"{name} on nodes", f"device and rails in site/{site.name}.yaml"
    rdma = {node: devices_of(host) for node, host in hosts.items()}
    rates = {node: device_rate(host, name) for node, host in hosts.items()}
    addresses = [of.pci for there in rdma.values() if (of := devices.named(name, there))]
    if None in rates.values():
        lacks = {
            node: "" if rate else f"no {name}, but {_there(hosts[node])}"
            for node, rate in rates.items()
        }
        for address in filter(None, addresses[:1]):
            if all(devices.named(address, there) for there in rdma.values()):
                file = f"{file}: {address}"
        return _on_nodes(what, lacks, "", file)
    detail = ", ".join(f"{node} {rate}" for node, rate in rates.items())
    for reason in filter(None, (inactive(name, there) for there in rdma.values())):
        return lacking(what, f"{detail}: {reason}", file, needed=True)
    if len(set(addresses)) > 1:
        other = f"{detail}; not the same device: at {', '.join(map(str, addresses))}"
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
    of_name = (of for of in host["interfaces"] if of["name"] == name)
    return next((f"(up{gbit_s(interface['rate_b_s'])})" for interface in of_name), None)
