"""The trial of `nimc doctor --in-job`: which writes are tried, and their outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.display.figures import quantity
from conductor.block import trial as block_trial
from conductor.block.trial import Trial
from conductor.injectors import INJECTORS, get
from nimc.cluster.faults import fault_in
from nimc.cluster.node_look import NodeReport
from nimc.readiness.finding import HostFinding, gap
from records.block_plan import BlockPlan
from records.errors import InputError
from records.machine import devices
from records.machine.site import Machine
from records.notes import Note
from records.sample import FULL_SHARE, WriterRecord
from records.text import first_names
from records.treatment import Treatment
from records.units import plural
from reframe_tests import planning

#: Case of the trial's plan.
CASE = "trial"
#: How long a writer may take until it reports a row, seconds. Six that fail take two minutes.
_READY_S = 20.0
#: A counter that shows less than this share of the bytes written stands still. It may rise a little
#: since every interface carries some other traffic.
_STANDSTILL_SHARE = 0.01
_REASONS_PAGE = "docs/reliability.md has what each reason means"


def logs_of(folder: Path) -> Path:
    """Return where the trial of a job writes its files."""
    return folder / "logs" / CASE / "0"


def plan_of(machine: Machine, folder: Path) -> BlockPlan:
    """Return the plan of writes and reads by the machine's injector, and writes by all others.

    On one host there are no others.
    """
    tried: list[tuple[str, str]] = [(machine.injector, "write"), (machine.injector, "read")]
    if machine.origins.policy != "same_host":
        tried += [(name, "write") for name in _writing_injectors() if name != machine.injector]
    treatments = [
        treatment for name, direction in tried for treatment in _treatment(name, direction, machine)
    ]
    request = planning.CaseRequest(arms=["on"])
    fixed = {"case": CASE, "workload": "", "block": 0, "seed": 0, "pairs": 0, "warmups": 0}
    limits = {"ready_timeout_s": _READY_S}
    return planning.block(request, treatments, machine, limits, nimc_dir=str(folder), **fixed)


def _writing_injectors() -> list[str]:
    return [
        name
        for name, injector in INJECTORS.items()
        if injector.writes and injector.direction == "write"
    ]


def _treatment(name: str, direction: str, machine: Machine) -> list[Treatment]:
    """Return the treatment with the writes of an injector; empty if it has no such direction."""
    try:
        injector = get(name, direction)
        levels = {"injector": name, "direction": direction}
        request = planning.CaseRequest(arms=["off", "on"], levels=levels)
        writes = planning.treatments(request, machine)[-1].writes
    except (InputError, ValueError):
        return []
    return [Treatment(name=injector.name, writes=writes, role="effect", baseline="off")]


def read_trials(folder: Path) -> list[Trial]:
    """Return the outcomes in a job's folder; empty if the trial did not come to its end."""
    try:
        return [*block_trial.read(logs_of(folder))]
    except (OSError, ValueError):
        return []


def progress_lines(plan: BlockPlan, folder: Path) -> list[str]:
    """Return a line for each treatment of a plan that was tried or is being tried."""
    if not logs_of(folder).exists():
        return []
    names = [treatment.name for treatment, _ in block_trial.treatments_tried(plan)]
    lines = [
        f"tries {_subject(name)} ({number} of {len(names)})" for number, name in enumerate(names, 1)
    ]
    return lines[: len(read_trials(folder)) + 1]


def why_untried(folder: Path, state: str = "") -> str | None:
    """Return why a trial did not come to its end, in one line; None if all writes were tried.

    `state` is Slurm's state of the job.
    """
    try:
        block = json.loads((logs_of(folder) / "block.json").read_bytes())
        return None if block["state"] == "done" else str(block["reason"])
    except (OSError, ValueError, LookupError):
        ended = f"; the job ended as {state}" if state else ""
        return f"the trial did not come to its end{ended}"


# The findings of a trial, a line each.


def findings(
    trials: Sequence[Trial], nodes: Sequence[NodeReport], machine: Machine
) -> Iterator[HostFinding]:
    """Yield a row for each injector that was tried, or that nodes lack."""
    for trial in trials:
        is_needed = INJECTORS[trial.name].name == machine.injector
        subject = _subject(trial.name)
        missing = [why for node in nodes if (why := node.injectors.get(trial.name))]
        if missing and not is_needed:
            cause, _, remedy = missing[0].partition(": ")
            yield gap(subject, cause, remedy)
            continue
        row = replace(_finding(trial, subject, nodes, machine), needed=is_needed)
        yield row if is_needed or row.state == "ok" else replace(row, state="limited")


def _subject(name: str) -> str:
    """Return what the injector of a trial does, such as `reads by ucx`."""
    injector = INJECTORS[name]
    action = "writes" if injector.direction == "write" else "reads"
    return f"{action} by {injector.name.removesuffix('_read')}"


def _finding(
    trial: Trial, subject: str, nodes: Sequence[NodeReport], machine: Machine
) -> HostFinding:
    if trial.failure:
        fault = fault_in(trial.failure)
        detail = f"{fault.name}: {trial.failure}" if fault else trial.failure
        return gap(subject, detail, fault.remedy if fault else "", needed=True)
    detail = "; ".join(_details(trial, nodes, machine))
    if standstill := _standstill(trial):
        remedy = f"name the `device` that carries the writes in site/{machine.name}.yaml"
        return gap(subject, f"{standstill}; {detail}", remedy, needed=True)
    unproven = any(record.proof == "unproven" for record in trial.writers)
    share = _link_share(trial.writers, machine)
    if trial.rejection:
        return gap(subject, f"a run would be rejected: {trial.rejection}; {detail}", _REASONS_PAGE)
    if unproven:
        return gap(subject, f"unproven; {detail}", Note.UNPROVEN.remedy)
    if share is not None and share < FULL_SHARE:
        return gap(subject, detail, Note.BELOW_LINK.remedy)
    return HostFinding(subject, "ok", detail)


def _details(trial: Trial, nodes: Sequence[NodeReport], machine: Machine) -> Iterator[str]:
    records = trial.writers
    rate_b_s = sum(record.rate_alone_b_s for record in records)
    share = _link_share(records, machine)
    link_share = "" if share is None else f", {share:.0%} of the link"
    pairs = max(record.queue_pairs or 1 for record in records)
    over = plural(pairs if pairs > 1 else len(records), "queue pair")
    transports = ", ".join(dict.fromkeys(record.transport for record in records))
    yield f"{quantity(rate_b_s, 'B/s')}{link_share} over {transports}, {over}"
    yield f"counted: {_counts(trial)}; proof: {records[0].proof or 'none'}"
    yield f"buffers on {_nodes_of_buffers(records)}"
    if records[0].origin_options:
        yield f"options {records[0].origin_options}"
    if device := machine.device and _device_node(nodes, machine.device):
        yield device
    indexes = {node.name: node.gid_indexes.get(trial.name) for node in nodes}
    if gids := [f"{name} {index}" for name, index in indexes.items() if index is not None]:
        yield f"GID index: {', '.join(gids)}"


def _standstill(trial: Trial) -> str:
    """Return which target's counter stood still while writers wrote; empty if none did."""
    for record in trial.writers:
        # A counter counts all writers to a target.
        written_b = sum(other.bytes_b for other in trial.writers if other.target == record.target)
        if record.counted_b is not None and record.counted_b < _STANDSTILL_SHARE * written_b:
            return f"a counter that stands still: {record.counter} at {record.target}"
    return ""


def _link_share(records: Sequence[WriterRecord], machine: Machine) -> float | None:
    """Return the share of the link's rate that the writers reached; None if it is not known."""
    if machine.nic is None:
        return None
    targets = len({record.target for record in records})
    return sum(record.rate_alone_b_s for record in records) / machine.nic.link_rate_b_s / targets


def _counts(trial: Trial) -> str:
    """Return what the devices of both ends counted."""
    # A counter counts all writers to a target.
    by_target = {record.target: record for record in trial.writers}
    received = [
        record.counted_b / record.counted_s
        for record in by_target.values()
        if record.counted_b is not None and record.counted_s
    ]
    sent = [rate_b_s for rate_b_s in trial.sent_b_s if rate_b_s is not None]
    at_targets = f"{_total(received)} at the target{'s' if len(by_target) > 1 else ''}"
    if received:
        at_targets += f" by {trial.writers[0].counter}"
    return f"{at_targets}, {_total(sent)} at the origin{'s' if len(sent) > 1 else ''}"


def _total(rates_b_s: Sequence[float]) -> str:
    return quantity(sum(rates_b_s), "B/s") if rates_b_s else "nothing"


def _nodes_of_buffers(records: Sequence[WriterRecord]) -> str:
    numbers = sorted({number for record in records for number in record.target_buffers_b})
    return f"NUMA node {first_names(numbers, len(numbers))}" if numbers else "an unknown NUMA node"


def _device_node(nodes: Sequence[NodeReport], name: str) -> str:
    """Return the NUMA node of the writers' device on the first node; empty if it has none."""
    number = devices.numa_node(name, nodes[0].host.rdma) if nodes else None
    return "" if number is None else f"{name} on NUMA node {number}"
