"""The trials of `nimc doctor --in-job`: plans which writes are tried, and reports the outcomes.

A *trial* makes short writes (or reads) from origin nodes to target nodes with one injector, the
program that makes writes. It finds out whether a campaign could use the injector.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.display.figures import quantity
from conductor.block import trial as block_trial
from conductor.block.trial import Trial
from conductor.injectors import INJECTORS, injector_for
from nimc.cluster.node_inspection import NodeReport
from nimc.readiness.faults import fault_in
from nimc.readiness.finding import HostFinding, fault_finding
from nimc.readiness.needs import trial_subject
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

#: Name of the case in the plan of trials.
CASE = "trial"
#: How long a writer may take to report its first row, seconds.
_READY_S = 20.0
#: A counter is said to stand still if it counted less than this share of the bytes that the writers
#: reported. It may count some bytes, since every interface carries some other traffic.
_STANDSTILL_SHARE = 0.01
#: The file that the trials leave at their end.
_END_FILE = "block.json"
_REASONS_PAGE = "docs/injectors.md#how-writes-are-proven explains each reason"


def logs_of(folder: Path) -> Path:
    """Return the folder for the files of trials in a job's folder."""
    return folder / "logs" / CASE / "0"


def plan_of(machine: Machine, folder: Path) -> BlockPlan:
    """Return the plan of trials: writes and reads by the machine's injector, writes by all others.

    If origin and target share a host, the other injectors are not tried.
    """
    tried_writes: list[tuple[str, str]] = [(machine.injector, "write"), (machine.injector, "read")]
    if machine.origins.policy != "same_host":
        others = [name for name in _writing_injectors() if name != machine.injector]
        tried_writes += [(name, "write") for name in others]
    treatments = [
        treatment
        for injector, direction in tried_writes
        if (treatment := _treatment(injector, direction, machine)) is not None
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


def _treatment(name: str, direction: str, machine: Machine) -> Treatment | None:
    """Return the treatment in which an injector writes (or reads, by `direction`).

    Returns None if the injector cannot do this on the machine.
    """
    try:
        injector = injector_for(name, direction)
        levels = {"injector": name, "direction": direction}
        request = planning.CaseRequest(arms=["off", "on"], levels=levels)
        writes = planning.treatments(request, machine)[-1].writes
    except (InputError, ValueError):
        return None
    return Treatment(name=injector.name, writes=writes, role="effect", baseline="off")


def read_trials(folder: Path) -> list[Trial]:
    """Return the outcomes of the trials in a job's folder; an empty list if none was saved."""
    try:
        refresh(logs_of(folder))
        return [*block_trial.read(logs_of(folder))]
    except (OSError, ValueError):
        return []


def progress_lines(plan: BlockPlan, folder: Path) -> list[str]:
    """Return a line for each trial of a plan that has ended or is in progress."""
    refresh(folder)
    if not logs_of(folder).exists():
        return []
    names = [treatment.name for treatment, _ in block_trial.treatments_tried(plan)]
    lines = [
        f"tries {trial_subject(name)} ({number} of {len(names)})"
        for number, name in enumerate(names, start=1)
    ]
    return lines[: len(read_trials(folder)) + 1]


def have_ended(folder: Path) -> bool:
    """Return whether the job with this folder has tried all writes, or has given up."""
    refresh(folder)
    return (logs_of(folder) / _END_FILE).exists()


def why_untried(folder: Path, state: str = "") -> str | None:
    """Return in one line why some writes were not tried; None if all were tried.

    `state` is the state of the job in Slurm.
    """
    try:
        block = json.loads(read_written(logs_of(folder) / _END_FILE))
        return None if block["state"] == "done" else str(block["reason"])
    except (OSError, ValueError, LookupError):
        job_end = f"; the job ended as {state}" if state else ""
        return f"the trial did not finish{job_end}"


# The findings of trials. Each is printed as one line.


def trial_findings(
    trials: Sequence[Trial], nodes: Sequence[NodeReport], machine: Machine
) -> Iterator[HostFinding]:
    """Yield a finding for each trial. It may say that nodes lack the injector.

    `nodes` are the reports of the inspected nodes.
    """
    for trial in trials:
        is_needed = trial.name == machine.injector
        subject = trial_subject(trial.name)
        faults = [fault for node in nodes if (fault := node.injector_faults.get(trial.name))]
        if faults and not is_needed:
            detail, _, remedy = faults[0].partition(": ")
            yield fault_finding(subject, detail, remedy)
            continue
        finding = replace(_finding(trial, subject, nodes, machine), needed=is_needed)
        yield finding if is_needed or finding.state == "ok" else replace(finding, state="limited")


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
    # If each writer has one queue pair, the number of writers is printed. Otherwise all writers
    # have the same number of queue pairs, which is printed.
    queue_pairs = writer_queue_pairs if writer_queue_pairs > 1 else len(writers)
    transports = ", ".join(dict.fromkeys(writer.transport for writer in writers))
    rate_text = f"{quantity(rate_b_s, 'B/s')}{share_text}"
    yield f"{rate_text} over {transports}, {plural(queue_pairs, 'queue pair')}"
    yield f"counted: {_counts_text(trial)}; proof: {writers[0].proof or 'none'}"
    yield f"buffers on {_buffer_numa_text(writers)}"
    if writers[0].origin_options:
        yield f"options {writers[0].origin_options}"
    if device_numa_text := machine.device and _device_numa_text(nodes, machine.device):
        yield device_numa_text
    indexes = {node.name: node.gid_indexes.get(trial.name) for node in nodes}
    if gids := [f"{name} {index}" for name, index in indexes.items() if index is not None]:
        yield f"GID index: {', '.join(gids)}"


def _standstill(trial: Trial) -> str:
    """Return in words which counter stood still while writers wrote; empty if none stood still."""
    for writer in trial.writers:
        # The counter of a target counts the bytes of all writers to this target.
        written_b = sum(other.bytes_b for other in trial.writers if other.target == writer.target)
        if writer.counted_b is not None and writer.counted_b < _STANDSTILL_SHARE * written_b:
            return f"a counter that stands still: {writer.counter} at {writer.target}"
    return ""


def _link_share(writers: Sequence[WriterRecord], machine: Machine) -> float | None:
    """Return the share of the links' rate at the targets that the writers reached together.

    Returns None if the site file does not give the rate of a link.
    """
    if machine.nic is None:
        return None
    rate_b_s = sum(writer.rate_alone_b_s for writer in writers)
    return rate_b_s / (machine.nic.link_rate_b_s * link_count(writers))


def link_count(writers: Sequence[WriterRecord]) -> int:
    """Return the number of the targets' devices to which writers write."""
    return len({(writer.target, writer.counter) for writer in writers})


def _bottleneck_remedy(
    writers: Sequence[WriterRecord], nodes: Sequence[NodeReport], machine: Machine
) -> str:
    """Return what to do if a port or a PCIe link is slower than `nic.link_rate` of the site file.

    The text is empty if none is slower. Virtual machines may report wrong rates of a port or link.
    So a reported rate is ignored if a writer was faster.
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
    """Return in words the rates that the devices of targets and of origins counted."""
    # The counter of a target counts the bytes of all writers to this target, so it is used once.
    by_target = {writer.target: writer for writer in trial.writers}
    origins = {writer.origin for writer in trial.writers}
    received_b_s = [
        writer.counted_b / writer.counted_s
        for writer in by_target.values()
        if writer.counted_b is not None and writer.counted_s
    ]
    sent_b_s = [rate_b_s for rate_b_s in trial.sent_b_s if rate_b_s is not None]
    at_targets = f"{_total_text(received_b_s)} at the target{'s' if len(by_target) > 1 else ''}"
    if received_b_s:
        at_targets += f" by {trial.writers[0].counter}"
    return f"{at_targets}, {_total_text(sent_b_s)} at the origin{'s' if len(origins) > 1 else ''}"


def _total_text(rates_b_s: Sequence[float]) -> str:
    return quantity(sum(rates_b_s), "B/s") if rates_b_s else "nothing"


def _buffer_numa_text(writers: Sequence[WriterRecord]) -> str:
    """Return in words the NUMA nodes on which the targets' buffers for the writers are."""
    numbers = sorted({number for writer in writers for number in writer.target_buffers_b})
    return f"NUMA node {first_names(numbers, len(numbers))}" if numbers else "an unknown NUMA node"


def _device_numa_text(nodes: Sequence[NodeReport], name: str) -> str:
    """Return in words the NUMA node of the writers' device on the first of `nodes`.

    The text is empty if it is unknown.
    """
    number = devices.numa_node(name, nodes[0].host.rdma) if nodes else None
    return "" if number is None else f"{name} on NUMA node {number}"
