"""Figures of a run's series, for the sample: of each target, and of each writer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from conductor.counters import DIRECTIONS, TrafficDirection
from conductor.injectors import INJECTORS
from conductor.injectors.base import TRAFFIC
from conductor.judge.rates import all_rows, passed_at, rate_before, window_figures
from conductor.judge.series import Series, WriterSeries
from conductor.readings import COUNT_SPAN_S, CounterSample, DeviceSeries, NodeSeries, Placement
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

#: Shortest time between two readings of a span, seconds: agents read four times a second, and also
#: when a row is printed.
_SPAN_S = 0.2


class Count(NamedTuple):
    """Bytes counted between two readings of a counter."""

    counter: str
    bytes_b: int
    over_s: float
    #: Of these, RDMA writes received, or RDMA reads answered; 0 if a device does not say.
    one_sided_b: int = 0


class Span(NamedTuple):
    """Bytes that were counted of a writer in a span of time."""

    length_s: float
    amount: float


#: Direction -> fields of a sample: all bytes, and those of RDMA writes or reads.
_FIELDS: dict[TrafficDirection, tuple[str, str]] = {
    "received": ("received_b", "written_b"),
    "sent": ("sent_b", "read_b"),
}


def _gone_b(device: DeviceSeries, name: str) -> int | None:
    """Return what a field rose by; None if a reading is missing, or the counter was set back."""
    first_b, last_b = (getattr(sample, name) for sample in (device.samples[0], device.samples[-1]))
    return None if first_b is None or last_b is None or last_b < first_b else last_b - first_b


def counted_bytes(node: NodeSeries, direction: TrafficDirection) -> Count | None:
    """Bytes that all devices of a node counted; None if there is none, or one lacks a count.

    Devices that share a counter, as soft-RoCE and the interface below, are counted once.
    """
    counters = {device.counter: device for device in node.devices if device.samples}
    every, one_sided = _FIELDS[direction]
    counted = [_gone_b(device, every) for device in counters.values()]
    gone_b = [bytes_b for bytes_b in counted if bytes_b is not None]
    if not counters or len(gone_b) < len(counted):
        return None
    first_s, last_s = (
        max(device.samples[index].at_s for device in counters.values()) for index in (0, -1)
    )
    one_sided_b = sum(_gone_b(device, one_sided) or 0 for device in counters.values())
    return Count("+".join(counters), sum(gone_b), last_s - first_s, one_sided_b)


def conditions(node: NodeSeries) -> NodeConditions:
    """Return what disturbed a target from its first reading to its last."""
    over_s = node.loads[-1].at_s - node.loads[0].at_s if node.loads else 0.0
    received_b_s, sent_b_s = (_rate_b_s(counted_bytes(node, direction)) for direction in DIRECTIONS)
    counters = dict.fromkeys(device.counter for device in node.devices)
    return NodeConditions(
        node=node.node,
        over_s=over_s,
        foreign_cpus=_foreign_cpus(node, over_s),
        steal_share=_steal_share(node),
        frequency_hz=fmean(node.frequencies_hz) if node.frequencies_hz else None,
        received_b_s=received_b_s,
        sent_b_s=sent_b_s,
        counter="+".join(counters) if counters and all(counters) else None,
        devices=_device_bytes(node.devices),
        free_cpus=node.free_cpus,
    )


def _rate_b_s(count: Count | None) -> float | None:
    return count.bytes_b / count.over_s if count and count.over_s > 0 else None


def _foreign_cpus(node: NodeSeries, over_s: float) -> float | None:
    if over_s <= 0 or any(load.foreign_s is None for load in (node.loads[0], node.loads[-1])):
        return None
    # The kernel's times of a process may fall by a tick.
    return max(node.loads[-1].foreign_s or 0.0, 0.0) / over_s


def _steal_share(node: NodeSeries) -> float | None:
    """Share of the processor time that the hypervisor took."""
    if not node.loads:
        return None
    first, last = node.loads[0], node.loads[-1]
    all_ticks = last.total - first.total
    # A hypervisor may set its count back, as when it moves the machine to another host.
    return max(last.stolen - first.stolen, 0) / all_ticks if all_ticks > 0 else None


def _device_bytes(devices: Sequence[DeviceSeries]) -> list[DeviceBytes]:
    """The bytes of each device; empty if one of them has no counter."""
    counted = []
    for device in devices:
        received_b, sent_b = (_gone_b(device, _FIELDS[direction][0]) for direction in DIRECTIONS)
        if received_b is None or sent_b is None:
            return []
        counted.append(DeviceBytes(device.device, received_b, sent_b))
    return counted


def spans(writer: WriterSeries, window_s: tuple[float, float]) -> list[Span]:
    """Return what was counted of a writer in a window, four times a second.

    The first begins before the window, and the last ends after it, if there are such readings.
    """
    start_s, end_s = window_s
    before = [sample for sample in writer.samples if sample.at_s <= start_s][-1:]
    inside = [sample for sample in writer.samples if start_s < sample.at_s < end_s]
    after = [sample for sample in writer.samples if sample.at_s >= end_s][:1]
    apart: list[CounterSample] = []
    for sample in [*before, *inside, *after]:
        if not apart or sample.at_s - apart[-1].at_s >= _SPAN_S:
            apart.append(sample)
    return [
        Span(last.at_s - first.at_s, last.total - first.total) for first, last in pairwise(apart)
    ]


def writer_records(series: Series, window_s: tuple[float, float]) -> list[WriterRecord]:
    """Return what each writer did in the window, with what counted it and where its buffers lay."""
    records = [_writer_record(writer, window_s) for writer in series.writers]
    counted = _counted(series, records or series.claims)
    complete = [_proven(record, counted.get(record.target)) for record in series.claims]
    for record, writer in zip(records, series.writers, strict=True):
        found_share = _found_share(writer, record.rate_b_s, window_s)
        count, alone_b_s = counted.get(record.target), writer.counted_alone_b_s
        proven = _proven(record, count, alone_b_s, found_share)
        complete.append(_with_placement(proven, writer.placed))
    return [_as_shown(record, complete, counted.get(record.target)) for record in complete]


def _as_shown(
    record: WriterRecord, records: Sequence[WriterRecord], count: Count | None
) -> WriterRecord:
    """The record with what its bytes went over by what its target's devices show.

    Where a fabric may emulate RDMA writes, they must have been counted as such.
    """
    fabric = fabrics.FABRICS.get(record.transport)
    if fabric is None or fabric.one_sided_counter is None:
        return record
    claimed_b = sum(writer.bytes_b for writer in records if writer.target == record.target)
    if count and count.one_sided_b >= PROVEN_SHARE * claimed_b:
        return record
    return replace(record, transport=transport_notes.emulated_transport(fabric.name))


def _writer_record(series: WriterSeries, window_s: tuple[float, float]) -> WriterRecord:
    injector, writer = INJECTORS[series.injector], series.writer
    observed, factor = window_figures(series, window_s), 1.0 if injector.writes else 0.0
    limiter = "agent" if injector.paced_by == "agent" else "software"
    return WriterRecord(
        injector=injector.name,
        direction=injector.direction,
        origin=writer.origin,
        target=writer.target,
        transport=series.transport,
        message_b=writer.message_b if injector.writes else 0,
        footprint_b=injector.footprint_b(writer) if injector.writes else 0,
        queue_pairs=injector.queue_pairs(writer) if injector.writes else None,
        asked_b_s=writer.rate_b_s,
        limited_by=None if writer.rate_b_s is None else limiter,
        rate_alone_b_s=factor * series.alone_b_s,
        rate_b_s=factor * observed.rate_b_s,
        rate_min_b_s=factor * observed.rate_min_b_s,
        bytes_b=factor * observed.bytes_b,
        buffer_node=writer.buffer_node,
        observed_share=observed.observed_share,
        unobserved_s=observed.unobserved_s,
        cpu_share=None if injector.writes else observed.rate_b_s,
        rate_before_b_s=rate_before(all_rows(series), window_s[0]) if injector.writes else None,
    )


def _counted(series: Series, records: Sequence[WriterRecord]) -> dict[str, Count]:
    """Target -> what its devices counted; under `MANY_TARGETS` the sum, if each of them counted."""
    direction = TRAFFIC[records[0].direction][1] if records else "received"
    counts = {node.node: counted_bytes(node, direction) for node in series.nodes}
    counted = {node: count for node, count in counts.items() if count}
    if counted and len(counted) == len(counts):
        counted[MANY_TARGETS] = Count(
            counter="+".join(dict.fromkeys(count.counter for count in counted.values())),
            bytes_b=sum(count.bytes_b for count in counted.values()),
            over_s=max(count.over_s for count in counted.values()),
            one_sided_b=sum(count.one_sided_b for count in counted.values()),
        )
    return counted


def _proven(
    record: WriterRecord,
    count: Count | None,
    alone_b_s: float | None = None,
    found_share: float | None = None,
) -> WriterRecord:
    """The record with what proves its writes: the count of its target's devices, for all its
    writers together, or what the target found in its memory. A control has no proof.
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
            counted_alone_b_s=alone_b_s,
        )
    elif found_share is not None and found_share >= PROVEN_SHARE:
        proof = "memory"
    return replace(record, proof=proof, overwritten_share=found_share)


def _found_share(
    writer: WriterSeries, claimed_b_s: float, window_s: tuple[float, float]
) -> float | None:
    """Share of the bytes claimed that the target found in its memory; None: not looked at.

    Its last report may come after the window: the bytes of up to two spans may be missing.
    """
    start_s, end_s = window_s
    samples = writer.samples if writer.meter.memory else []
    news = [later.at_s for earlier, later in pairwise(samples) if later.total > earlier.total]
    if not samples or not claimed_b_s:
        return None
    since_s = max(start_s, samples[0].at_s)
    until_s = min(end_s, max(news, default=start_s))
    before, after = passed_at(samples, since_s), passed_at(samples, until_s)
    if before is None or after is None:
        return 0.0
    over_s = max(until_s - since_s, end_s - start_s - 2 * COUNT_SPAN_S)
    return min((after - before) / (claimed_b_s * over_s), 1.0)


def _with_placement(record: WriterRecord, placed: Sequence[Placement]) -> WriterRecord:
    """The record with the placement of both ends' buffers."""
    ends = {end.role: end for end in placed}
    target, origin = ends.get("target"), ends.get("origin")
    at_target = target.buffers_b if target else {}
    at_origin = origin.buffers_b if origin else {}
    # There the origin maps the target's buffer, sometimes the origin alone.
    there_b = at_target or (at_origin if record.transport == "shared memory" else {})
    share = None
    if record.buffer_node is not None and there_b:
        share = there_b.get(str(record.buffer_node), 0) / sum(there_b.values())
    return replace(
        record,
        own_binding=origin.own_binding if origin else None,
        target_buffers_b=at_target,
        origin_buffers_b=at_origin,
        target_on_node_share=share,
        target_pinned_b=target.pinned_b if target else None,
        target_huge_b=target.huge_b if target else None,
        target_options=" ".join(target.options) if target else None,
        origin_options=" ".join(origin.options) if origin else None,
    )


def unproven_note(series: Series, records: Sequence[WriterRecord]) -> str | None:
    """A note on the targets whose writes nothing but the writers' reports shows; None if none."""
    targets = [record.target for record in records if record.proof == "unproven"]
    if not targets:
        return None
    reasons = [
        _not_proven(writer.meter.fault, record.overwritten_share)
        for writer, record in zip(series.writers, records, strict=False)
        if record.proof == "unproven"
    ]
    target_names = "the targets" if MANY_TARGETS in targets else ", ".join(dict.fromkeys(targets))
    return Note.UNPROVEN(
        targets=target_names, memory=reasons[0] if reasons else _not_proven(None, None)
    )


def _not_proven(fault: str | None, found_share: float | None) -> str:
    """Return what a target's memory lacks as a proof."""
    if found_share is None:
        return f"was not looked at{f' ({fault})' if fault else ''}"
    return f"shows {found_share:.0%} of what they claim, where {PROVEN_SHARE:.0%} are needed"
