"""The checks of `nimc doctor --in-job`: what Slurm accepts, and what target and origin nodes have.

Each function gives one finding from what a job brought back (`node_job`); `examine` submits it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nimc.base.checkout import ROOT
from nimc.base.errors import InputError, MachineError
from nimc.base.text import duration
from nimc.campaign.settings import settings_of, target_partitions
from nimc.cluster import node_job
from nimc.cluster.doctor import Finding, gbit_s, lacking, port_words
from nimc.cluster.node_job import JobLook, NodeRequest
from nimc.machine.site import Machine, Origins
from nimc.machine.site import load as load_machine

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
    parts = [part for part in settings.partitions if part.get("scheduler") == "slurm"]
    targets = target_partitions(parts, site.partition)
    if not targets:
        raise InputError(
            f"--in-job: configs/{name}.py has no partition of Slurm for the targets; allowed:"
            " machines whose jobs Slurm starts"
        )
    os.environ.update(settings.environment)  # as ReFrame, which runs the file (SLURM_CONF)
    try:
        accesses = [(part["name"], part.get("access", [])) for part in parts]
        asked = [accepted(name, of, node_job.refusal(NodeRequest(of))) for name, of in accesses]
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
        reason = node_job.refusal(request)
        found.append(hetjob(site.origins, reason))
        if reason:
            return found
    tell(f"submits a job of {request.tasks} nodes; waits up to {duration(wait_s)}")
    with _existing(results):
        looked = node_job.look(request, results, wait_s)
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
    detail = node_job.outcome(looked, request)
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
    others = f"interfaces of all nodes: {', '.join(shared) or 'none'}"
    if site.interface is None:
        return lacking(what, f"none in site/{site.name}.yaml; {others}", "set interface")
    if site.interface in shared:
        pairs = [f"{node['node']} {node['addresses'][site.interface]}" for node in looked.nodes]
        return Finding(what, "ok", f"{site.interface}: {', '.join(pairs)}", needed=True)
    lost = [n["node"] for n in looked.nodes if not n["addresses"].get(site.interface)]
    detail = f"{', '.join(lost)}: no {site.interface} with an IPv4 address; {others}"
    return lacking(what, detail, f"interface in site/{site.name}.yaml", needed=True)


def in_common(addresses: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Interfaces with an address on every node."""
    names = addresses[0] if addresses else {}
    return [name for name in names if all(each.get(name) for each in addresses)]


def device(looked: JobLook, site: Machine) -> list[Finding]:
    """Whether every node has the writers' device and all rails."""
    wanted = [rail.device for rail in site.rails] or ([site.device] if site.device else [])
    hosts = [node["host"] for node in looked.nodes]
    there = sorted({d["name"] for h in hosts for d in (*h["rdma"], *h["interfaces"])})
    found = []
    for name in wanted:
        rates = {node["node"]: device_rate(node["host"], name) for node in looked.nodes}
        detail = ", ".join(f"{node} {rate}" for node, rate in rates.items())
        made = Finding(f"{name} on nodes", "ok", detail, needed=True)
        if lost := [node for node, rate in rates.items() if rate is None]:
            detail = f"{', '.join(lost)}: no {name}; found: {', '.join(there) or 'none'}"
            remedy = f"device and rails in site/{site.name}.yaml"
            made = lacking(made.what, detail, remedy, needed=True)
        found.append(made)
    return found


def device_rate(host: Mapping[str, Any], name: str) -> str | None:
    """State and rate of an RDMA device or interface in words; None if the node has none."""
    for each in host["rdma"]:
        if each["name"] == name:
            return f"({', '.join(map(port_words, each['ports'])) or each['transport']})"
    for each in host["interfaces"]:
        if each["name"] == name:
            return f"(up{gbit_s(each)})"
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
