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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from records.programs import ask, last_line

#: Names of findings.
_JOB, _HETJOB = "job on nodes", "heterogeneous job"


def examine(
    name: str, results: Path, wait_s: float, tell: Callable[[str], None], root: Path = ROOT
) -> list[Finding]:
    """Ask Slurm, then look at the nodes in a job; `tell` says so before it is submitted.

    Raises InputError for a machine without Slurm, Stopped after a signal; the job is gone then.
    """
    site = load_machine(name, root)
    config = root / "configs" / f"{name}.py"
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
    partition, environ = targets[0]["name"], targets[0]["environs"][0]
    try:
        asked = [accepted(part["name"], part.get("access", [])) for part in parts]
        with _existing(results):
            place = Place(config, partition, environ, site.origins)
            looked = look(place, results.absolute(), wait_s, tell)
    except MachineError as error:
        return [lacking(_JOB, str(error), "see 'slurm' above", needed=True)]
    return asked + findings(looked, site)


@contextmanager
def _existing(folder: Path) -> Iterator[None]:
    """The folder exists within the context, and afterwards if it did before."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # something else has used it meanwhile
            for path in new:
                path.rmdir()


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


def accepted(partition: str, access: Sequence[str]) -> Finding:
    """Whether Slurm takes a job in a partition with these options. Raises MachineError."""
    words = [word for line in access for word in slurm.words_of(line)]
    answer = ask(["sbatch", "--test-only", "--wrap=true", *words]).ended()
    what, options = f"partition {partition}", " ".join(access) or "no options"
    if answer.ok:
        return Finding(what, "ok", f"sbatch --test-only accepts {options}")
    remedy = "correct access in configs/: sinfo shows partitions, sacctmgr show assoc accounts"
    reason = last_line(answer.stderr).rpartition("error: ")[2]
    return lacking(what, f"sbatch --test-only {options}: {reason}", remedy, needed=True)


def findings(looked: JobLook, site: Machine) -> list[Finding]:
    """All findings of a job."""
    rows = [ran(looked, site.origins)]
    if site.origins.policy in ("hetjob", "reservation"):
        first = hetjob(looked, site.origins)
        rows = [first, *rows] if looked.job else [first]
    if looked.nodes:
        rows += [sees(looked), locks(looked), interface(looked, site)]
        rows += [*device(looked, site), injector(looked, site)]
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
    lost = [
        f"{node['node']} does not see {path}" for node in looked.nodes for path in node["unseen"]
    ]
    if lost:
        remedy = "keep it on a file system that all nodes mount"
        return lacking("shared folders", "; ".join(lost), remedy, needed=True)
    names = ", ".join(node["node"] for node in looked.nodes)
    detail = f"{names} see the checkout, Python, the results and the stage folder"
    return Finding("shared folders", "ok", detail, needed=True)


def locks(looked: JobLook) -> Finding:
    """Whether a lock of the first node in the results folder keeps the others out."""
    first, *others = looked.nodes
    if not others:
        return Finding("locks", "ok", "one node only: not tried from another")
    wrong = [node["node"] for node in others if node["lock"] != "seen"]
    if not wrong and first["lock"] == "held":
        who = ", ".join(node["node"] for node in others)
        detail = f"{who} sees the lock of {first['node']} in the results folder"
        return Finding("locks", "ok", detail, needed=True)
    late = [node["node"] for node in looked.nodes if node["lock"] == "late"]
    detail = f"{', '.join(wrong)} gets a lock that {first['node']} holds in the results folder"
    if late:
        detail = f"{', '.join(late)} waited 30 s for a file of the other node"
    remedy = "mount it with locks (Lustre: -o flock), or use another --results"
    return lacking("locks", detail, remedy, needed=True)


def interface(looked: JobLook, site: Machine) -> Finding:
    """Whether every node has the interface of the site file, with an address."""
    what = "interface on nodes"
    shared = in_common([node["addresses"] for node in looked.nodes])
    others = f"interfaces of all nodes: {', '.join(shared) or _of_each(looked)}"
    if site.interface is None:
        return lacking(what, f"none in site/{site.name}.yaml; {others}", "set interface")
    if site.interface in shared:
        pairs = [f"{node['node']} {node['addresses'][site.interface]}" for node in looked.nodes]
        return Finding(what, "ok", f"{site.interface}: {', '.join(pairs)}", needed=True)
    lost = [n["node"] for n in looked.nodes if not n["addresses"].get(site.interface)]
    detail = f"{', '.join(lost)}: no {site.interface} with an IPv4 address; {others}"
    return lacking(what, detail, f"interface in site/{site.name}.yaml", needed=True)


def _of_each(looked: JobLook) -> str:
    """What nodes without an interface in common have."""
    names = {node["node"]: in_common([node["addresses"]]) for node in looked.nodes}
    return "none (" + "; ".join(f"{node}: {', '.join(of)}" for node, of in names.items()) + ")"


def in_common(addresses: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Interfaces with an address on every node."""
    names = addresses[0] if addresses else {}
    return [name for name in names if all(of_node.get(name) for of_node in addresses)]


def device(looked: JobLook, site: Machine) -> list[Finding]:
    """Whether every node has the writers' device and all rails, with an active port."""
    wanted = [rail.device for rail in site.rails] or ([site.device] if site.device else [])
    return [_device(name, looked, site) for name in wanted]


def _device(name: str, looked: JobLook, site: Machine) -> Finding:
    what, file = f"{name} on nodes", f"device and rails in site/{site.name}.yaml"
    hosts = {node["node"]: node["host"] for node in looked.nodes}
    rates = {node: device_rate(host, name) for node, host in hosts.items()}
    if lost := [node for node, rate in rates.items() if rate is None]:
        detail = "; ".join(f"{node}: no {name}, but {_there(hosts[node])}" for node in lost)
        here = [devices.named(name, _rdma(host)) for host in hosts.values()]
        address = next((device.pci for device in here if device and device.pci), None)
        same = address and all(devices.named(address, _rdma(host)) for host in hosts.values())
        return lacking(what, detail, f"{file}: {address}" if same else file, needed=True)
    detail = ", ".join(f"{node} {rate}" for node, rate in rates.items())
    for host in hosts.values():
        if reason := inactive(name, _rdma(host)):
            return lacking(what, f"{detail}: {reason}", file, needed=True)
    at = [rdma.pci for host in hosts.values() if (rdma := devices.named(name, _rdma(host)))]
    if len(set(at)) > 1:
        other = f"{detail}; not the same device: at {', '.join(map(str, at))}"
        return lacking(what, other, f"{file}: its PCI address")
    return Finding(what, "ok", detail, needed=True)


def _rdma(host: Mapping[str, Any]) -> list[devices.Device]:
    return [devices.of_record(record) for record in host["rdma"]]


def _there(host: Mapping[str, Any]) -> str:
    """RDMA devices with their addresses, and interfaces."""
    rdma = [f"{of.name} at {of.pci}" if of.pci else of.name for of in _rdma(host)]
    return (
        ", ".join([*rdma, *(interface["name"] for interface in host["interfaces"])])
        or "nothing else"
    )


def device_rate(host: Mapping[str, Any], name: str) -> str | None:
    """State and rate of an RDMA device or interface in words; None if the node has none."""
    if device := devices.named(name, _rdma(host)):
        return f"({', '.join(map(port_words, device.ports)) or device.transport})"
    for interface in host["interfaces"]:
        if interface["name"] == name:
            return f"(up{gbit_s(interface['rate_b_s'])})"
    return None


def injector(looked: JobLook, site: Machine) -> Finding:
    """Whether every node has the program of the writers."""
    what = f"{site.injector} on nodes"
    reasons = {node["node"]: node["injectors"][site.injector] for node in looked.nodes}
    lost = [node for node, reason in reasons.items() if reason]
    if not lost:
        return Finding(what, "ok", f"ready on {', '.join(reasons)}", needed=True)
    lack, _, remedy = reasons[lost[0]].partition(": ")
    return lacking(what, f"{', '.join(lost)}: {lack}", remedy, needed=True)
