"""Computes the figures of each target and of each writer for the sample, from a run's series.

The bytes that a writer *claims* are those that its own rows report. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from conductor.counters import DIRECTIONS, TrafficDirection
from conductor.injectors import INJECTORS
from conductor.injectors.base import TRAFFIC
from conductor.judge.rates import all_rows, rate_before, total_at, window_figures
from conductor.judge.series import Series, Window, WriterSeries
from conductor.readings import (
    SHORTEST_COUNT_S,
    CounterSample,
    DeviceSample,
    DeviceSeries,
    NodeSeries,
    Placement,
)
from records.machine import fabrics, transport_notes
from records.notes import Note
from records.sample import (
    MANY_TARGETS,
    PROVEN_SHARE,
    DeviceBytes,
    NodeConditions,
    Proof,
    WriterRecord,
)
from records.units import percentage

#: Shortest length of a span, seconds. Agents count four times a second, and at each row.
_SHORTEST_SPAN_S = 0.2


class Count(NamedTuple):
    """Bytes counted between two readings of a counter."""

    counter: str
    bytes_b: int
    over_s: float
    #: Bytes of RDMA writes received, or of RDMA reads answered, which are included above; 0 if not
    #: counted.
    one_sided_b: int = 0


class Span(NamedTuple):
    """A span of time, and the amount that a writer's meter counted in it."""

    length_s: float
    #: Bytes; for a control, seconds of processor time.
    amount: float


def _rise_b(device: DeviceSeries, count_b: Callable[[DeviceSample], int | None]) -> int | None:
    """Return the rise of a count; None if a reading is missing or the counter was set back."""
    first_b, last_b = count_b(device.samples[0]), count_b(device.samples[-1])
    if first_b is None or last_b is None or last_b < first_b:
        return None
    return last_b - first_b


def _passed_b(device: DeviceSeries, direction: TrafficDirection) -> int | None:
    """Return the bytes that passed a device in a direction; None if unknown."""
    if direction == "received":
        return _rise_b(device, lambda sample: sample.received_b)
    return _rise_b(device, lambda sample: sample.sent_b)


def _one_sided_b(device: DeviceSeries, direction: TrafficDirection) -> int | None:
    """Return the bytes of RDMA writes received, or of RDMA reads answered; None if unknown."""
    if direction == "received":
        return _rise_b(device, lambda sample: sample.written_b)
    return _rise_b(device, lambda sample: sample.read_b)


def counted_bytes(node: NodeSeries, direction: TrafficDirection) -> Count | None:
    """Return the bytes that all devices of a node counted in a direction.

    None if there are no devices, or if a device has no count. Devices that share a counter, such as
    soft-RoCE and the interface below it, are counted once.
    """
    device_of_counter = {device.counter: device for device in node.devices}
    devices = device_of_counter.values()
    passed_b = [_passed_b(device, direction) for device in devices]
    known_b = [bytes_b for bytes_b in passed_b if bytes_b is not None]
    if not devices or len(known_b) < len(passed_b):
        return None
    first_s = max(device.samples[0].at_s for device in devices)
    last_s = max(device.samples[-1].at_s for device in devices)
    one_sided_b = sum(_one_sided_b(device, direction) or 0 for device in devices)
    return Count("+".join(device_of_counter), sum(known_b), last_s - first_s, one_sided_b)


def node_conditions(node: NodeSeries) -> NodeConditions:
    """Return the conditions on a target from its first reading to its last."""
    over_s = node.loads[-1].at_s - node.loads[0].at_s if node.loads else 0.0
    rates_b_s = {direction: _rate_b_s(counted_bytes(node, direction)) for direction in DIRECTIONS}
    counters = dict.fromkeys(device.counter for device in node.devices)
    return NodeConditions(
        node=node.node,
        over_s=over_s,
        foreign_cpus=_foreign_cpus(node, over_s),
        steal_share=_steal_share(node),
        frequency_hz=fmean(node.frequencies_hz) if node.frequencies_hz else None,
        received_b_s=rates_b_s["received"],
        sent_b_s=rates_b_s["sent"],
        counter="+".join(counters) if counters and all(counters) else None,
        devices=_device_bytes(node.devices),
        free_cpus=node.free_cpus,
    )


def _rate_b_s(count: Count | None) -> float | None:
    return count.bytes_b / count.over_s if count and count.over_s > 0 else None


def _foreign_cpus(node: NodeSeries, over_s: float) -> float | None:
    """Return the mean number of hardware threads that foreign processes kept busy.

    None if it is unknown.
    """
    if over_s <= 0 or node.loads[0].foreign_s is None or node.loads[-1].foreign_s is None:
        return None
    # `foreign_s` counts from the first reading. It may be below 0, since the time that the kernel
    # shows for a process may fall by a tick.
    return max(node.loads[-1].foreign_s, 0.0) / over_s


def _steal_share(node: NodeSeries) -> float | None:
    """Return the share of the processor time that the hypervisor took; None if unknown."""
    if not node.loads:
        return None
    first, last = node.loads[0], node.loads[-1]
    all_ticks = last.total_ticks - first.total_ticks
    # A hypervisor may set its count back, for example when it moves the machine to another host.
    return max(last.stolen_ticks - first.stolen_ticks, 0) / all_ticks if all_ticks > 0 else None


def _device_bytes(devices: Sequence[DeviceSeries]) -> list[DeviceBytes]:
    """Return the bytes of each device; empty if a device has no counter."""
    bytes_by_device = []
    for device in devices:
        received_b, sent_b = _passed_b(device, "received"), _passed_b(device, "sent")
        if received_b is None or sent_b is None:
            return []
        bytes_by_device.append(DeviceBytes(device.device, received_b, sent_b))
    return bytes_by_device


def spans_in_window(writer: WriterSeries, window_s: Window) -> list[Span]:
    """Return the spans between the samples of a writer in a window, about four a second.

    The first span begins at the last sample before the window, if there is one. A sample less than
    `_SHORTEST_SPAN_S` after the end of a span is left out. So the last span ends after the window
    only if the first sample there is far enough from the last end; otherwise it ends inside.
    """
    start_s, end_s = window_s
    before = [sample for sample in writer.samples if sample.at_s <= start_s][-1:]
    inside = [sample for sample in writer.samples if start_s < sample.at_s < end_s]
    after = [sample for sample in writer.samples if sample.at_s >= end_s][:1]
    boundaries: list[CounterSample] = []
    for sample in [*before, *inside, *after]:
        if not boundaries or sample.at_s - boundaries[-1].at_s >= _SHORTEST_SPAN_S:
            boundaries.append(sample)
    return [
        Span(later.at_s - earlier.at_s, later.total - earlier.total)
        for earlier, later in pairwise(boundaries)
    ]


def writer_records(series: Series, window_s: Window) -> list[WriterRecord]:
    """Return the record of each writer in the window, with proof and placement.

    A run has either writers, or `claims`, which are the records of a timetable's writers.
    """
    records = [_writer_record(writer, window_s) for writer in series.writers]
    all_records = [*records, *series.claims]
    # All writers of a run write in the same direction.
    direction = TRAFFIC[all_records[0].direction].at_target if all_records else "received"
    counts = _counts_by_target(series, direction)
    proven_records = [_with_proof(record, counts.get(record.target)) for record in series.claims]
    for record, writer in zip(records, series.writers, strict=True):
        with_proof = _with_proof(
            record,
            counts.get(record.target),
            writer.counted_alone_b_s,
            _memory_share(writer, record.rate_b_s, window_s),
        )
        proven_records.append(_with_placement(with_proof, writer.placed))
    return [
        _with_transport(record, proven_records, counts.get(record.target))
        for record in proven_records
    ]


def resets(series: Series) -> Iterator[str]:
    """Yield a line for each device whose counter was set back, if it decides the transport.

    Without its count, such a run would be called emulated (`_with_transport`), unlike other runs of
    the treatment.
    """
    transports = {writer.transport for writer in series.writers}
    transports |= {claim.transport for claim in series.claims}
    rows = fabrics.FABRICS.items()
    if not any(fabric.one_sided_counter and name in transports for name, fabric in rows):
        return
    for node in series.nodes:
        for device in node.devices:
            first_counts, last_counts = device.samples[0][1:], device.samples[-1][1:]
            if any(
                first_b is not None and last_b is not None and last_b < first_b
                for first_b, last_b in zip(first_counts, last_counts, strict=True)
            ):
                yield f"{node.node}: the byte counter of {device.device} was set back"


def _with_transport(
    record: WriterRecord, records: Sequence[WriterRecord], count: Count | None
) -> WriterRecord:
    """Return the record; its transport is called emulated unless devices show RDMA writes.

    Only some fabrics may emulate RDMA writes. On such a fabric, the target's devices must have
    counted at least `PROVEN_SHARE` of the bytes that the target's writers claim as RDMA writes.
    """
    fabric = fabrics.FABRICS.get(record.transport)
    if fabric is None or fabric.one_sided_counter is None:
        return record
    claimed_b = sum(writer.bytes_b for writer in records if writer.target == record.target)
    if count and count.one_sided_b >= PROVEN_SHARE * claimed_b:
        return record
    return replace(record, transport=transport_notes.emulated_transport(fabric.name))


def _writer_record(writer_series: WriterSeries, window_s: Window) -> WriterRecord:
    """Return the record of a writer or control in the window, without proof and placement."""
    injector, writer = INJECTORS[writer_series.injector], writer_series.writer
    figures = window_figures(writer_series, window_s)
    # A control writes nothing. Its rows are shares of a core, so its rates and bytes become 0.
    write_factor = 1.0 if injector.writes else 0.0
    limiter = "agent" if injector.paced_by == "agent" else "software"
    rows = all_rows(writer_series)
    return WriterRecord(
        injector=injector.name,
        direction=injector.direction,
        origin=writer.origin,
        target=writer.target,
        transport=writer_series.transport,
        message_b=writer.message_b if injector.writes else 0,
        footprint_b=injector.footprint_b(writer) if injector.writes else 0,
        queue_pairs=injector.queue_pairs(writer) if injector.writes else None,
        asked_b_s=writer.rate_b_s,
        limited_by=None if writer.rate_b_s is None else limiter,
        rate_alone_b_s=write_factor * writer_series.alone_b_s,
        rate_b_s=write_factor * figures.rate_b_s,
        rate_min_b_s=write_factor * figures.rate_min_b_s,
        bytes_b=write_factor * figures.bytes_b,
        buffer_node=writer.buffer_node,
        observed_share=figures.observed_share,
        unobserved_s=figures.unobserved_s,
        cpu_share=None if injector.writes else figures.rate_b_s,
        rate_before_b_s=rate_before(rows, window_s[0]) if injector.writes else None,
    )


def _counts_by_target(series: Series, direction: TrafficDirection) -> dict[str, Count]:
    """Return target -> count of its devices.

    If the devices of all targets counted, `MANY_TARGETS` has the sum. It proves the writes of
    writers to many targets.
    """
    count_of_node = {target.node: counted_bytes(target, direction) for target in series.nodes}
    counts = {node: count for node, count in count_of_node.items() if count}
    if counts and len(counts) == len(count_of_node):
        counts[MANY_TARGETS] = Count(
            counter="+".join(dict.fromkeys(count.counter for count in counts.values())),
            bytes_b=sum(count.bytes_b for count in counts.values()),
            over_s=max(count.over_s for count in counts.values()),
            one_sided_b=sum(count.one_sided_b for count in counts.values()),
        )
    return counts


def _with_proof(
    record: WriterRecord,
    count: Count | None,
    counted_alone_b_s: float | None = None,
    memory_share: float | None = None,
) -> WriterRecord:
    """Return the record with the proof of its writes.

    The proof is either the count of the target's devices, which is for all writers of the target
    together, or the share of the claimed bytes that the target found in its memory. A control has
    no proof.
    """
    if not record.message_b:
        return record
    proof: Proof = "unproven"
    if count:
        proof = "device"
        record = replace(
            record,
            counter=count.counter,
            counted_b=count.bytes_b,
            counted_s=count.over_s,
            counted_alone_b_s=counted_alone_b_s,
        )
    elif memory_share is not None and memory_share >= PROVEN_SHARE:
        proof = "memory"
    return replace(record, proof=proof, overwritten_share=memory_share)


def _memory_share(writer: WriterSeries, claimed_b_s: float, window_s: Window) -> float | None:
    """Return the share of the claimed bytes that the target found in its memory.

    None if the target does not look at its memory, or if nothing is reported or claimed. The share
    is 0 if no report in the window has new bytes. Otherwise it is computed up to the last report of
    new bytes, since the next report may come after the window. If the last report comes more than
    two intervals of reports (`SHORTEST_COUNT_S`) before the end of the window, the time beyond
    these two intervals lowers the share.
    """
    samples = writer.samples
    if not writer.meter.in_memory or not samples or not claimed_b_s:
        return None
    start_s, end_s = window_s
    rise_times_s = [
        later.at_s for earlier, later in pairwise(samples) if later.total > earlier.total
    ]
    first_s = max(start_s, samples[0].at_s)
    last_s = min(end_s, max(rise_times_s, default=start_s))
    before, after = total_at(samples, first_s), total_at(samples, last_s)
    if before is None or after is None or last_s <= first_s:
        return 0.0
    over_s = max(last_s - first_s, end_s - start_s - 2 * SHORTEST_COUNT_S)
    return min((after - before) / (claimed_b_s * over_s), 1.0)


def _with_placement(record: WriterRecord, placed: Sequence[Placement]) -> WriterRecord:
    """Return the record with the placement of the buffers of both ends."""
    ends = {end.role: end for end in placed}
    target, origin = ends.get("target"), ends.get("origin")
    target_b = target.buffers_b if target else {}
    origin_b = origin.buffers_b if origin else {}
    buffers_b = target_b
    if not target_b and record.transport == "shared memory":
        # Both ends map the target's buffer. Sometimes only the origin's memory shows it.
        buffers_b = origin_b
    on_node_share = None
    if record.buffer_node is not None and buffers_b:
        on_node_share = buffers_b.get(str(record.buffer_node), 0) / sum(buffers_b.values())
    return replace(
        record,
        own_binding=origin.own_binding if origin else None,
        target_buffers_b=target_b,
        origin_buffers_b=origin_b,
        target_on_node_share=on_node_share,
        target_pinned_b=target.pinned_b if target else None,
        target_huge_b=target.huge_b if target else None,
        target_options=" ".join(target.options) if target else None,
        origin_options=" ".join(origin.options) if origin else None,
    )


def unproven_note(series: Series, records: Sequence[WriterRecord]) -> str | None:
    """Return a note on the targets whose writes are unproven; None if there are no such targets."""
    targets = [record.target for record in records if record.proof == "unproven"]
    if not targets:
        return None
    # A run has either writers, in the order of their records, or claims, which have no meters.
    reasons = [
        _memory_doubt(writer.meter.fault, record.overwritten_share)
        for writer, record in zip(series.writers, records, strict=False)
        if record.proof == "unproven"
    ]
    target_names = "the targets" if MANY_TARGETS in targets else ", ".join(dict.fromkeys(targets))
    return Note.UNPROVEN(
        targets=target_names, memory=reasons[0] if reasons else _memory_doubt(None, None)
    )


def _memory_doubt(fault: str | None, memory_share: float | None) -> str:
    """Return why a target's memory does not prove the writes."""
    if memory_share is None:
        return f"was not looked at{f' ({fault})' if fault else ''}"
    shown, needed = percentage(memory_share), percentage(PROVEN_SHARE)
    return f"shows {shown} of what they claim, but {needed} are needed"
