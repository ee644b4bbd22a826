"""A short job that looks at nodes, and what `nimc doctor --in-job` makes of it.

The checks say what Slurm accepts, and what target and origin nodes have: each function gives one
finding from what a job brought back; `examine` submits it.
"""

from __future__ import annotations

import json
import os
import shlex
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
from records.checkout import ROOT, python_main
from records.errors import InputError, MachineError
from records.interrupts import Interrupts
from records.machine import devices, slurm
from records.machine.site import Machine, Origins
from records.machine.site import load as load_machine
from records.programs import ask
from records.text import duration

#: Names of findings.
_JOB, _HETJOB = "job on nodes", "heterogeneous job"


def examine(
    name: str, results: Path, wait_s: float, tell: Callable[[str], None], root: Path = ROOT
) -> list[Finding]:
    """Ask Slurm, then look at the nodes in a job; `tell` says so before it is submitted.

    Raises InputError for a machine without Slurm, Stopped after a signal; the job is gone then.
    """
    site = load_machine(name, root)
    settings = settings_of(root / "configs" / f"{name}.py")
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
    try:
        accesses = [(part["name"], part.get("access", [])) for part in parts]
        asked = [accepted(name, of, refusal(NodeRequest(of))) for name, of in accesses]
        return asked + _in_job(site, targets[0], results.absolute(), wait_s, tell)
    except MachineError as error:
        return [lacking(_JOB, str(error), "see 'slurm' above", needed=True)]


def _in_job(
    site: Machine,
    part: Mapping[str, Any],
    results: Path,
    wait_s: float,
    tell: Callable[[str], None],
) -> list[Finding]:
    # What nodes must see: checkout, Python and where it was made from, results, stage folder.
    # `nimc run` stages in the results; ReFrame alone in its prefix or the current folder.
    prefix = os.environ.get("RFM_STAGE_DIR") or os.environ.get("RFM_PREFIX") or "."
    paths = [str(ROOT), sys.executable, os.path.realpath(sys.executable), str(results)]
    paths = list(dict.fromkeys([*paths, os.path.abspath(prefix)]))
    env_vars = [(str(name), str(value)) for name, value in part.get("env_vars", [])]
    request = NodeRequest(part.get("access", []), site.origins, paths, env_vars)
    found = []
    if site.origins.policy in ("hetjob", "reservation"):
        reason = refusal(request)
        found.append(hetjob(site.origins, reason))
        if reason:
            return found
    tell(f"submits a job of {request.tasks} nodes; waits up to {duration(wait_s)}")
    with _existing(results):
        looked = look(request, results, wait_s)
    return found + findings(looked, request, site)


@contextmanager
def _existing(folder: Path) -> Iterator[None]:
    """The folder exists within the context, and afterwards if it did before."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # something else has used it meanwhile
            for each in new:
                each.rmdir()


def accepted(partition: str, access: Sequence[str], reason: str | None) -> Finding:
    """Whether Slurm takes a job in a partition with these options; `reason` if it does not."""
    what = f"partition {partition}"
    options = " ".join(access) or "no options"
    if reason is None:
        return Finding(what, "ok", f"sbatch --test-only accepts {options}")
    remedy = "correct access in configs/: sinfo shows partitions, sacctmgr show assoc accounts"
    return lacking(what, f"sbatch --test-only {options}: {reason}", remedy, needed=True)


def hetjob(origins: Origins, reason: str | None) -> Finding:
    """Whether Slurm takes targets and origins as a heterogeneous job."""
    if reason is None:
        detail = f"Slurm accepts origins in {origins.partition or 'the default partition'}"
        return Finding(_HETJOB, "ok", f"{detail} (submitted on hold, and cancelled)", needed=True)
    remedy = "origins.policy: same_job, or another origins.partition, in site/"
    return lacking(_HETJOB, f"refused: {reason}", remedy, needed=True)


def findings(looked: JobLook, request: NodeRequest, site: Machine) -> list[Finding]:
    """All findings of a job, one line each."""
    found = [ran(looked, request), *sees(looked, request)]
    if looked.nodes:
        found += [locks(looked), interface(looked, site)]
        found += [*device(looked, site), injector(looked, site)]
    return found


def ran(looked: JobLook, request: NodeRequest) -> Finding:
    """Whether the job ran on as many nodes as it has."""
    detail = outcome(looked, request)
    if len(looked.nodes) == request.tasks:
        return Finding(_JOB, "ok", detail, needed=True)
    remedy = "nodes must see the results folder, and Python there must start"
    if looked.why:
        remedy = "try later, or with a longer --wait" if looked.job else "see access in configs/"
    return lacking(_JOB, detail, remedy, needed=True)


def sees(looked: JobLook, request: NodeRequest) -> list[Finding]:
    """Whether all nodes see the checkout, Python, results and stage folder."""
    if not looked.seen:
        return []
    lost = [
        f"{node} does not see {path}"
        for node, paths in looked.seen.items()
        for path in request.paths
        if path not in paths
    ]
    if lost:
        remedy = "keep it on a file system that all nodes mount"
        return [lacking("shared folders", "; ".join(lost), remedy, needed=True)]
    detail = f"{', '.join(looked.seen)} see {', '.join(request.paths)}"
    return [Finding("shared folders", "ok", detail, needed=True)]


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
    names = {each["node"]: in_common([each["addresses"]]) for each in looked.nodes}
    return "none (" + "; ".join(f"{node}: {', '.join(of)}" for node, of in names.items()) + ")"


def in_common(addresses: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Interfaces with an address on every node."""
    names = addresses[0] if addresses else {}
    return [name for name in names if all(each.get(name) for each in addresses)]


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
        address = next((each.pci for each in here if each and each.pci), None)
        same = address and all(devices.named(address, _rdma(host)) for host in hosts.values())
        return lacking(what, detail, f"{file}: {address}" if same else file, needed=True)
    detail = ", ".join(f"{node} {rate}" for node, rate in rates.items())
    for host in hosts.values():
        if reason := inactive(name, _rdma(host)):
            return lacking(what, f"{detail}: {reason}", file, needed=True)
    at = [found.pci for host in hosts.values() if (found := devices.named(name, _rdma(host)))]
    if len(set(at)) > 1:
        other = f"{detail}; not the same device: at {', '.join(map(str, at))}"
        return lacking(what, other, f"{file}: its PCI address")
    return Finding(what, "ok", detail, needed=True)


def _rdma(host: Mapping[str, Any]) -> list[devices.Device]:
    return [devices.of_record(each) for each in host["rdma"]]


def _there(host: Mapping[str, Any]) -> str:
    """RDMA devices with their addresses, and interfaces."""
    rdma = [f"{each.name} at {each.pci}" if each.pci else each.name for each in _rdma(host)]
    return ", ".join([*rdma, *(each["name"] for each in host["interfaces"])]) or "nothing else"


def device_rate(host: Mapping[str, Any], name: str) -> str | None:
    """State and rate of an RDMA device or interface in words; None if the node has none."""
    if device := devices.named(name, _rdma(host)):
        return f"({', '.join(map(port_words, device.ports)) or device.transport})"
    for each in host["interfaces"]:
        if each["name"] == name:
            return f"(up{gbit_s(each['rate_b_s'])})"
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


# The job: its script, how it is submitted, and what came back.


#: Begins the name of the job's folder.
PREFIX = ".nimc-look-"
#: Each node prints which of the paths it sees.
_SEEN = 'for each in {paths}; do [ -e "$each" ] && echo "seen $SLURMD_NODENAME $each"; done'
#: How long the job may run, minutes, and how often Slurm is asked, seconds.
_LIMIT_MIN = 2
_POLL_S = 0.5
#: One node, and no origins.
_ALONE = Origins(policy="same_host")


@dataclass(frozen=True)
class NodeRequest:
    """Which nodes to look at."""

    #: Options of sbatch: `access` of a partition.
    access: Sequence[str] = ()
    origins: Origins = _ALONE
    #: Paths that nodes must see.
    paths: Sequence[str] = ()
    #: Variables of the partition.
    env_vars: Sequence[tuple[str, str]] = ()

    @property
    def tasks(self) -> int:
        """Nodes that the job has: one target, and the origins."""
        return 1 + (0 if self.origins.policy == "same_host" else self.origins.nodes)


@dataclass(frozen=True)
class JobLook:
    """What a job found."""

    #: Slurm's id; None if it refused the job.
    job: str | None
    #: Why there is nothing more, in one line; None if the job ran.
    why: str | None = None
    #: One record for each node that could write it (`node_look`), targets first.
    nodes: list[dict[str, Any]] = field(default_factory=list)
    #: Node -> paths that it sees.
    seen: dict[str, list[str]] = field(default_factory=dict)
    #: The last line of the job's output.
    said: str = ""


def script(request: NodeRequest, folder: Path | None) -> str:
    """The job script; it does nothing without `folder`, where it leaves its results."""
    same_job = request.origins.policy == "same_job"
    first = request.tasks if same_job else 1
    options = [f"--nodes={first}", f"--ntasks={first}", "--ntasks-per-node=1"]
    options += [f"--time={_LIMIT_MIN}", "--job-name=nimc-look", *request.access]
    if folder is not None:
        places = {"chdir": folder, "output": folder / "job.out"}.items()
        # sbatch splits these lines at blanks, as a shell does.
        options += [f"--{name}={shlex.quote(str(path))}" for name, path in places]
    lines = [f"#SBATCH {option}" for option in options]
    for option in slurm.job_options(request.origins):
        lines.append(option if option.startswith("#SBATCH") else f"#SBATCH {option}")
    if folder is not None:
        lines += _body(request, folder)
    return "\n".join(["#!/bin/sh", *lines, ""])


def _body(request: NodeRequest, folder: Path) -> list[str]:
    variables = {**dict(request.env_vars), **slurm.STEP_ENVIRONMENT}
    seen = _SEEN.format(paths=shlex.join(request.paths) or '""')
    look = python_main("nimc.cluster.node_look", str(folder), str(request.tasks))
    launcher = [
        word.format(n_nodes=request.tasks) for word in slurm.agent_launcher(request.origins)
    ]
    if request.origins.policy == "same_host":
        launcher = [word for word in launcher if not word.startswith("--het-group")]
    return [
        *(f'export {name}="{value}"' for name, value in variables.items()),
        shlex.join([*launcher, "sh", "-c", f"{seen}; exec {shlex.join(look)}"]),
    ]


def refusal(request: NodeRequest) -> str | None:
    """Why Slurm would refuse such a job, in one line; None if it takes it.

    `sbatch --test-only` looks at each component of a heterogeneous job by itself, so what a site
    forbids shows only when one is submitted: it is held, and cancelled at once. Raises MachineError
    if Slurm does not answer.
    """
    held = request.origins.policy in ("hetjob", "reservation")
    how = ["--hold", "--output=/dev/null"] if held else ["--test-only"]
    with Interrupts() as interrupts, tempfile.TemporaryDirectory() as folder:
        try:
            answer = ask(["sbatch", f"--chdir={folder}", *how], stdin=script(request, None))
            interrupts.check()
        finally:
            if held:
                slurm.cancel(Path(folder))
    return None if answer.ended().ok else _error(answer.stderr)


def look(request: NodeRequest, parent: Path, wait_s: float) -> JobLook:
    """Submit the job and wait until it has ended, at most `wait_s` seconds.

    Its files are in a new folder in `parent`, which nodes should see. Whatever ends this, the job
    and the folder are gone. Raises MachineError if Slurm does not answer, Stopped after a signal.
    """
    with Interrupts() as interrupts, tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as made:
        folder = Path(made)
        try:
            answer = ask(["sbatch", "--parsable"], stdin=script(request, folder))
            interrupts.check()
            if not answer.ended().ok:
                return JobLook(None, f"Slurm refuses the job: {_error(answer.stderr)}")
            job = slurm.job_id(answer.stdout)
            reason = _await(job, interrupts, wait_s)
        finally:
            slurm.cancel(folder)
        interrupts.check()
        return collected(folder, job, reason)


def collected(folder: Path, job: str, reason: str | None) -> JobLook:
    """What a job left in its folder."""
    files = sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem))
    nodes = [json.loads(path.read_text()) for path in files]
    output = folder / "job.out"
    text = output.read_text(errors="replace") if output.exists() else ""
    return JobLook(job, reason, nodes, *output_of_nodes(text))


def outcome(looked: JobLook, request: NodeRequest) -> str:
    """How the job went, in one line."""
    names = [node["node"] for node in looked.nodes]
    if len(names) == request.tasks:
        origins = ", ".join(names[1:]) or "none"
        return f"job {looked.job}: target {names[0]}, origins {origins}"
    if looked.why:
        return looked.why
    said = f"it said: {looked.said}" if looked.said else "it wrote nothing"
    return f"job {looked.job}: {len(names)} of {request.tasks} nodes answered; {said}"


def output_of_nodes(text: str) -> tuple[dict[str, list[str]], str]:
    """Node -> paths that it sees, from lines `seen NODE PATH`; and the last other line."""
    seen: dict[str, list[str]] = {}
    said = ""
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        node, _, path = rest.partition(" ")
        if word == "seen" and path:
            seen.setdefault(node, []).append(path)
        elif line.strip():
            said = line.strip()
    return seen, said


def _await(job: str, interrupts: Interrupts, wait_s: float) -> str | None:
    """Wait for the job's end; why it does not come, else None. Raises Stopped."""
    until_s = time.monotonic() + wait_s
    while state := _state(job):
        if time.monotonic() > until_s:
            return f"job {job} has not ended after {duration(wait_s)} ({state}); cancelled"
        interrupts.wait(_POLL_S)
        interrupts.check()
    return None


def _state(job: str) -> str:
    """State and reason of a job that has not ended; else empty."""
    answer = ask(["squeue", f"--job={job}", "--noheader", "--format=%T: %r"])
    if "nvalid job id" not in answer.stderr:
        answer.required()
    return slurm.not_ended(answer.stdout)


def _error(text: str) -> str:
    """What Slurm said, without the names of its programs."""
    lines = [line.partition("error: ")[2] or line for line in text.splitlines() if line.strip()]
    return "; ".join(line.strip() for line in lines) or "no answer"
