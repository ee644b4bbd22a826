"""The trial of `nimc doctor --in-job`: which writes are tried, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from conductor import trial
from conductor.injectors import INJECTORS, get
from conductor.trial import Trial
from nimc.cluster.faults import fault_in
from nimc.cluster.node_look import LookedAt
from nimc.possible.finding import Finding, gap
from records.errors import InputError
from records.machine import devices
from records.machine.site import Machine
from records.notes import Note
from records.plan import BlockPlan
from records.sample import FULL_SHARE, WriterRecord
from records.text import some
from records.treatment import Treatment
from records.units import plural, quantity
from reframe_tests import planning

#: Case of the trial's plan.
CASE = "trial"
#: How long a writer may take until it reports a row, seconds: of six, some may fail in two minutes.
_READY_S = 20.0
_REJECTED = "docs/reliability.md has what each reason means"


def logs_of(folder: Path) -> Path:
    """Where the trial of a job's folder leaves its files."""
    return folder / "logs" / CASE / "0"


def plan_of(site: Machine, folder: Path) -> BlockPlan:
    """Writes and reads by the machine's injector, and writes by the others for a network."""
    tried: list[tuple[str, str]] = [(site.injector, "write"), (site.injector, "read")]
    if site.origins.policy != "same_host":
        tried += [(name, "write") for name in _of_networks() if name != site.injector]
    treatments = [
        treatment for name, direction in tried for treatment in _treatment(name, direction, site)
    ]
    request = planning.CaseRequest(arms=["on"])
    fixed = {"case": CASE, "workload": "", "block": 0, "seed": 0, "pairs": 0, "warmups": 0}
    demand = {"ready_timeout_s": _READY_S}
    return planning.block(request, treatments, site, demand, nimc_dir=str(folder), **fixed)


def _of_networks() -> list[str]:
    return [
        name
        for name, injector in INJECTORS.items()
        if injector.writes and injector.direction == "write"
    ]


def _treatment(name: str, direction: str, site: Machine) -> list[Treatment]:
    """The writes of an injector; none if it has no such direction."""
    try:
        injector = get(name, direction)
        levels = {"injector": name, "direction": direction}
        request = planning.CaseRequest(arms=["off", "on"], levels=levels)
        writes = planning.treatments(request, site)[-1].writes
    except (InputError, ValueError):
        return []
    return [Treatment(injector.name, writes=writes, role="effect", baseline="off")]


def read(folder: Path) -> list[Trial]:
    """What the trial of a job's folder left; empty if it did not come to its end."""
    try:
        return [*trial.read(logs_of(folder))]
    except (OSError, ValueError):
        return []


def why_untried(folder: Path, state: str = "") -> str:
    """Why a trial did not come to its end, in one line; `state`: Slurm's, of its job."""
    try:
        block = json.loads((logs_of(folder) / "block.json").read_bytes())
        return str(block["reason"])
    except (OSError, ValueError, LookupError):
        ended = f"; the job ended as {state}" if state else ""
        return f"the trial left no result{ended}"


# What it shows, a line each.


def findings(
    trials: Sequence[Trial], nodes: Sequence[LookedAt], site: Machine
) -> Iterator[Finding]:
    """A row for each injector that was tried; those that nodes lack have a row of their own."""
    absent = {name for node in nodes for name, lack in node.injectors.items() if lack}
    for one in trials:
        injector = INJECTORS[one.name]
        if injector.name in absent and injector.name != site.injector:
            continue
        what = "writes" if injector.direction == "write" else "reads"
        row = _finding(one, f"{what} by {injector.name.removesuffix('_read')}", nodes, site)
        own = injector.name == site.injector
        state = "missing" if row.state == "missing" and own else row.state
        yield replace(row, needed=own, state=state if own or state == "ok" else "limited")


def _finding(one: Trial, what: str, nodes: Sequence[LookedAt], site: Machine) -> Finding:
    if one.failure:
        fault = fault_in(one.failure)
        detail = f"{fault.name}: {one.failure}" if fault else one.failure
        return gap(what, detail, fault.remedy if fault else "", needed=True)
    detail = "; ".join(_details(one, nodes, site))
    if still := _standing(one):
        remedy = f"name the `device` that carries the writes in site/{site.name}.yaml"
        return gap(what, f"{still}; {detail}", remedy, needed=True)
    unproven = any(record.proof == "unproven" for record in one.writers)
    share = _link_share(one.writers, site)
    if one.rejection:
        return gap(what, f"a run would be rejected: {one.rejection}; {detail}", _REJECTED)
    if unproven:
        return gap(what, f"unproven; {detail}", Note.UNPROVEN.remedy)
    if share is not None and share < FULL_SHARE:
        return gap(what, detail, Note.BELOW_LINK.remedy)
    return Finding(what, "ok", detail)


def _details(one: Trial, nodes: Sequence[LookedAt], site: Machine) -> Iterator[str]:
    records = one.writers
    rate_b_s = sum(record.rate_alone_b_s for record in records)
    share = _link_share(records, site)
    of_link = "" if share is None else f", {share:.0%} of the link"
    pairs = max(record.queue_pairs or 1 for record in records)
    over = plural(pairs if pairs > 1 else len(records), "queue pair")
    transports = ", ".join(dict.fromkeys(record.transport for record in records))
    yield f"{quantity(rate_b_s, 'B/s')}{of_link} over {transports}, {over}"
    yield f"counted: {_counts(one)}; proof: {records[0].proof or 'none'}"
    yield f"buffers on {_nodes_of_buffers(records)}"
    if records[0].origin_options:
        yield f"options {records[0].origin_options}"
    if device := site.device and _device_node(nodes, site.device):
        yield device
    gids = [f"{node.name} {node.gid_index}" for node in nodes if node.gid_index is not None]
    if gids:
        yield f"GID index: {', '.join(gids)}"


def _standing(one: Trial) -> str:
    """That the target's counter stood still while writers wrote; empty if it did not."""
    for record in one.writers:
        if record.counted_b == 0 and record.bytes_b > 0:
            return f"a counter that stands still: {record.counter} at {record.target}"
    return ""


def _link_share(records: Sequence[WriterRecord], site: Machine) -> float | None:
    """Share of the link's rate that the writers reached; None if it is not known."""
    if site.nic is None:
        return None
    targets = len({record.target for record in records})
    return sum(record.rate_alone_b_s for record in records) / site.nic.link_rate_b_s / targets


def _counts(one: Trial) -> str:
    """What the devices of both ends counted."""
    record = one.writers[0]
    at_target = "nothing at the target"
    if record.counted_b is not None and record.counted_s:
        rate_b_s = record.counted_b / record.counted_s
        at_target = f"{quantity(rate_b_s, 'B/s')} at the target by {record.counter}"
    counted = [rate_b_s for rate_b_s in one.sent_b_s if rate_b_s is not None]
    if not counted:
        return f"{at_target}, nothing at the origin"
    return f"{at_target}, {quantity(sum(counted), 'B/s')} at the origin"


def _nodes_of_buffers(records: Sequence[WriterRecord]) -> str:
    numbers = sorted({number for record in records for number in record.target_buffers_b})
    return f"NUMA node {some(numbers, len(numbers))}" if numbers else "an unknown NUMA node"


def _device_node(nodes: Sequence[LookedAt], name: str) -> str:
    """The NUMA node of the writers' device on the first node; empty if it has none."""
    number = devices.numa_node(name, nodes[0].host.rdma) if nodes else None
    return "" if number is None else f"{name} on NUMA node {number}"
