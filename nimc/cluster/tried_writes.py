"""The trial of `nimc doctor --in-job`: which writes are tried, and their outcomes."""

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
from nimc.readiness.finding import HostFinding, fault_finding
from records.block_plan import BlockPlan
from records.errors import InputError
from records.files import read_written, refresh
from records.machine import devices
from records.machine.site import Machine
from records.notes import Note
from records.sample import FULL_LINK_SHARE, WriterRecord
from records.text import first_names
from records.treatment import Treatment
from records.units import percentage, plural
from reframe_tests import planning

#: Case of the trial's plan.
CASE = "trial"
#: How long a writer may take to report its first row, seconds. Six failures take two minutes.
_READY_S = 20.0
#: A counter that shows less than this share of the bytes written counts as standing still. It may
#: have risen a little, since every interface carries some other traffic.
_STANDSTILL_SHARE = 0.01
_REASONS_PAGE = "docs/reliability.md explains each reason"


def logs_of(folder: Path) -> Path:
    """Return the folder in a job's folder that gets the files of its trial."""
    return folder / "logs" / CASE / "0"


def plan_of(machine: Machine, folder: Path) -> BlockPlan:
    """Return the plan of writes and reads by the machine's injector, and writes by all others.

    On one host the other injectors are not tried.
    """
    tried_writes: list[tuple[str, str]] = [(machine.injector, "write"), (machine.injector, "read")]
    if machine.origins.policy != "same_host":
        others = [name for name in _writing_injectors() if name != machine.injector]
        tried_writes += [(name, "write") for name in others]
    treatments = [
        treatment
        for injector, direction in tried_writes
        for treatment in _treatments(injector, direction, machine)
    ]
    request = planning.CaseRequest(arms=["on"])
    limits = {"ready_timeout_s": _READY_S}
    return planning.plan_of_writers(
        request, treatments, machine, limits, case=CASE, nimc_dir=str(folder)
    )


def _writing_injectors() -> list[str]:
    return [
        name
        for name, injector in INJECTORS.items()
        if injector.writes and injector.direction == "write"
    ]


def _treatments(name: str, direction: str, machine: Machine) -> list[Treatment]:
    """Return the one treatment with an injector's writes; none if it has no such direction."""
    try:
        injector = get(name, direction)
        levels = {"injector": name, "direction": direction}
        request = planning.CaseRequest(arms=["off", "on"], levels=levels)
        writes = planning.treatments(request, machine)[-1].writes
    except (InputError, ValueError):
        return []
    return [Treatment(name=injector.name, writes=writes, role="effect", baseline="off")]


def read_trials(folder: Path) -> list[Trial]:
    """Return the outcomes in a job's folder; none if no outcome was saved."""
    try:
        refresh(logs_of(folder))
        return [*block_trial.read(logs_of(folder))]
    except (OSError, ValueError):
        return []


def progress_lines(plan: BlockPlan, folder: Path) -> list[str]:
    """Return a line for each treatment of a plan that was tried or is being tried."""
    refresh(folder)
    if not logs_of(folder).exists():
        return []
    names = [treatment.name for treatment, _ in block_trial.treatments_tried(plan)]
    lines = [
        f"tries {_subject(name)} ({number} of {len(names)})"
        for number, name in enumerate(names, start=1)
    ]
    return lines[: len(read_trials(folder)) + 1]


def why_untried(folder: Path, state: str = "") -> str | None:
    """Return why some writes were not tried, in one line; None if all were.

    `state` is Slurm's state of the job.
    """
    try:
        block = json.loads(read_written(logs_of(folder) / "block.json"))
        return None if block["state"] == "done" else str(block["reason"])
    except (OSError, ValueError, LookupError):
        job_end = f"; the job ended as {state}" if state else ""
        return f"the trial did not finish{job_end}"


# The findings of a trial, a line each.


def trial_findings(
    trials: Sequence[Trial], nodes: Sequence[NodeReport], machine: Machine
) -> Iterator[HostFinding]:
    """Yield a finding for each kind of writes that was tried, or whose injector nodes lack."""
    for trial in trials:
        is_needed = INJECTORS[trial.name].name == machine.injector
        subject = _subject(trial.name)
        faults = [fault for node in nodes if (fault := node.injectors.get(trial.name))]
        if faults and not is_needed:
            detail, _, remedy = faults[0].partition(": ")
            yield fault_finding(subject, detail, remedy)
            continue
        finding = replace(_finding(trial, subject, nodes, machine), needed=is_needed)
        yield finding if is_needed or finding.state == "ok" else replace(finding, state="limited")


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
        return fault_finding(subject, detail, fault.remedy if fault else "", needed=True)
    detail = "; ".join(_details(trial, nodes, machine))
    if standstill := _standstill(trial):
        remedy = f"name the `device` that carries the writes in site/{machine.name}.yaml"
        return fault_finding(subject, f"{standstill}; {detail}", remedy, needed=True)
    is_unproven = any(record.proof == "unproven" for record in trial.writers)
    share = _link_share(trial.writers, machine)
    if trial.rejection:
        return fault_finding(
            subject, f"a run would be rejected: {trial.rejection}; {detail}", _REASONS_PAGE
        )
    if is_unproven:
        return fault_finding(subject, f"unproven; {detail}", Note.UNPROVEN.remedy)
    if share is not None and share < FULL_LINK_SHARE:
        remedy = _bottleneck_remedy(trial.writers, nodes, machine) or Note.BELOW_LINK.remedy
        return fault_finding(subject, detail, remedy)
    return HostFinding(subject, "ok", detail)


def _details(trial: Trial, nodes: Sequence[NodeReport], machine: Machine) -> Iterator[str]:
    writers = trial.writers
    rate_b_s = sum(writer.rate_alone_b_s for writer in writers)
    share = _link_share(writers, machine)
    share_text = "" if share is None else f", {percentage(share)} of the link"
    writer_queue_pairs = max(writer.queue_pairs or 1 for writer in writers)
    # Writers with one queue pair are added up. Writers with several all have the same number.
    queue_pairs = writer_queue_pairs if writer_queue_pairs > 1 else len(writers)
    transports = ", ".join(dict.fromkeys(writer.transport for writer in writers))
    rate_text = f"{quantity(rate_b_s, 'B/s')}{share_text}"
    yield f"{rate_text} over {transports}, {plural(queue_pairs, 'queue pair')}"
    yield f"counted: {_counts_text(trial)}; proof: {writers[0].proof or 'none'}"
    yield f"buffers on {_buffer_nodes_text(writers)}"
    if writers[0].origin_options:
        yield f"options {writers[0].origin_options}"
    if device_node := machine.device and _device_node_text(nodes, machine.device):
        yield device_node
    indexes = {node.name: node.gid_indexes.get(trial.name) for node in nodes}
    if gids := [f"{name} {index}" for name, index in indexes.items() if index is not None]:
        yield f"GID index: {', '.join(gids)}"


def _standstill(trial: Trial) -> str:
    """Return which target's counter stood still while writers wrote; empty if none did."""
    for writer in trial.writers:
        # A counter counts all writers to a target.
        written_b = sum(other.bytes_b for other in trial.writers if other.target == writer.target)
        if writer.counted_b is not None and writer.counted_b < _STANDSTILL_SHARE * written_b:
            return f"a counter that stands still: {writer.counter} at {writer.target}"
    return ""


def _link_share(writers: Sequence[WriterRecord], machine: Machine) -> float | None:
    """Return the share of the targets' link rates that the writers reached; None if not known."""
    if machine.nic is None:
        return None
    targets = {writer.target for writer in writers}
    rate_b_s = sum(writer.rate_alone_b_s for writer in writers)
    return rate_b_s / (machine.nic.link_rate_b_s * len(targets))


def _bottleneck_remedy(
    writers: Sequence[WriterRecord], nodes: Sequence[NodeReport], machine: Machine
) -> str:
    """Return what to do if a port or a PCIe link is slower than `nic.link_rate`; else empty.

    A rate below that of the writers is not believed: virtual machines may show such.
    """
    if machine.device is None or machine.nic is None:
        return ""
    fastest_b_s = max(writer.rate_alone_b_s for writer in writers)
    for node in nodes:
        device = devices.find(machine.device, node.host.rdma)
        if device is None:
            continue
        port = device.port(devices.parse_name(machine.device).port)
        limits = (
            ("port", port and port.rate_b_s, "check its cable and its switch, or correct"),
            ("PCIe link", node.pcie_b_s.get(device.name), "use another slot, or correct"),
        )
        for limited_by, rate_b_s, remedy in limits:
            if rate_b_s and fastest_b_s <= rate_b_s < machine.nic.link_rate_b_s:
                return (
                    f"the {limited_by} of {machine.device} on {node.name} carries at most"
                    f" {quantity(rate_b_s, 'B/s')}: {remedy} `nic.link_rate`"
                )
    return ""


def _counts_text(trial: Trial) -> str:
    """Return what the devices of both ends counted."""
    # A counter counts all writers to a target.
    by_target = {writer.target: writer for writer in trial.writers}
    received_b_s = [
        writer.counted_b / writer.counted_s
        for writer in by_target.values()
        if writer.counted_b is not None and writer.counted_s
    ]
    sent_b_s = [rate_b_s for rate_b_s in trial.sent_b_s if rate_b_s is not None]
    at_targets = f"{_total_text(received_b_s)} at the target{'s' if len(by_target) > 1 else ''}"
    if received_b_s:
        at_targets += f" by {trial.writers[0].counter}"
    return f"{at_targets}, {_total_text(sent_b_s)} at the origin{'s' if len(sent_b_s) > 1 else ''}"


def _total_text(rates_b_s: Sequence[float]) -> str:
    return quantity(sum(rates_b_s), "B/s") if rates_b_s else "nothing"


def _buffer_nodes_text(writers: Sequence[WriterRecord]) -> str:
    """Return the NUMA nodes of the writers' buffers at their targets, in words."""
    numbers = sorted({number for writer in writers for number in writer.target_buffers_b})
    return f"NUMA node {first_names(numbers, len(numbers))}" if numbers else "an unknown NUMA node"


def _device_node_text(nodes: Sequence[NodeReport], name: str) -> str:
    """Return the NUMA node of the writers' device on the first node, in words, or an empty text."""
    number = devices.numa_node(name, nodes[0].host.rdma) if nodes else None
    return "" if number is None else f"{name} on NUMA node {number}"
