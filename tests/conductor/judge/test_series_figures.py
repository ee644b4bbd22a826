"""Figures of a run's series: conditions of targets and records of writers, worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest

from conductor.judge.series import Series
from conductor.judge.series_figures import (
    Count,
    counted_bytes,
    node_conditions,
    unproven_note,
    writer_records,
)
from conductor.readings import (
    CounterSample,
    DeviceSample,
    DeviceSeries,
    LoadSample,
    MeterRecord,
    NodeSeries,
    Placement,
)
from records.sample import MANY_TARGETS, DeviceBytes, NodeConditions, WriterRecord
from tests.conductor.made_series import MEMORY, claim, counted, device, node, rows, writer

WINDOW = (1.0, 3.0)


def record(writer_series: Any, *nodes: NodeSeries) -> WriterRecord:
    """Return the record of one writer."""
    (one,) = writer_records(Series(nodes=list(nodes), writers=[writer_series]), WINDOW)
    return one


# Targets.


def test_conditions_are_computed_from_the_first_and_the_last_reading() -> None:
    loads = [
        LoadSample(4.0, 0.0, 5, 1000),
        LoadSample(6.0, 2.0, 9, 9),
        LoadSample(8.0, 3.0, 25, 2000),
    ]
    samples = [DeviceSample(5.0, 1000, 50), DeviceSample(7.0, 4000, 70)]
    device_series = DeviceSeries("a", "rdma:a/1", samples)
    node_series = NodeSeries(
        node="n1",
        devices=[device_series],
        loads=loads,
        busiest_program="stress",
        frequencies_hz=[2e9, 4e9],
        free_cpus="0-3",
    )
    # Foreign processes used 3 s in 4 s, and the hypervisor 20 of 1000 ticks. The device received
    # 3000 B and sent 20 B in 2 s.
    assert node_conditions(node_series) == NodeConditions(
        node="n1",
        over_s=4.0,
        foreign_cpus=0.75,
        steal_share=0.02,
        frequency_hz=3e9,
        received_b_s=1500.0,
        sent_b_s=10.0,
        counter="rdma:a/1",
        devices=[DeviceBytes("a", 3000, 20)],
        free_cpus="0-3",
    )


@pytest.mark.parametrize("hidden", [(None, 0.0), (0.0, None), (None, None)])
def test_a_condition_is_unknown_if_one_of_two_readings_lacks_it(
    hidden: tuple[float | None, ...],
) -> None:
    loads = [
        LoadSample(4.0 + 4 * number, foreign_s, 5, 10) for number, foreign_s in enumerate(hidden)
    ]
    device_series = DeviceSeries("a", "", [DeviceSample(5.0, None, 7), DeviceSample(7.0, 7, None)])
    assert node_conditions(
        NodeSeries(node="n1", devices=[device_series], loads=loads)
    ) == NodeConditions(node="n1", over_s=4.0)
    in_no_time = replace(device(), samples=[DeviceSample(5.0, 7, 7)])
    conditions = node_conditions(
        NodeSeries(node="n1", devices=[in_no_time], loads=[LoadSample(4.0, 0.0, 5, 10)])
    )
    assert (conditions.over_s, conditions.foreign_cpus, conditions.steal_share) == (0.0, None, None)
    assert (conditions.received_b_s, conditions.counter) == (None, "rdma:m0/1")


def test_conditions_of_a_run_of_half_a_second() -> None:
    """In this time, foreign processes used 0.2 s, and the device received 400 B."""
    half = node(device(400, over_s=0.5), over_s=0.5, foreign_s=0.2)
    conditions = node_conditions(half)
    assert (conditions.foreign_cpus, conditions.received_b_s) == (0.4, 800.0)


def test_a_node_has_the_name_of_its_counters_only_if_each_device_has_one() -> None:
    without_counter = replace(device(None, None, "m1"), counter="")
    for devices in ([], [device(), without_counter]):
        assert node_conditions(node(*devices)).counter is None


def test_a_count_that_falls_gives_zero() -> None:
    """If a figure were negative, the run's files could not be read again."""
    loads = [LoadSample(4.0, 0.5, 50, 1000), LoadSample(8.0, -0.01, 20, 2000)]
    conditions = node_conditions(NodeSeries(node="n1", devices=[], loads=loads))
    assert (conditions.foreign_cpus, conditions.steal_share) == (0.0, 0.0)


def test_counts_of_devices_are_added_if_each_device_has_one() -> None:
    one, other = device(400, 4), device(30, 3, "m1")
    assert counted_bytes(node(one, other), "received") == Count("rdma:m0/1+rdma:m1/1", 430, 10.0)
    assert counted_bytes(node(one, other), "sent") == Count("rdma:m0/1+rdma:m1/1", 7, 10.0)
    # One counter has stopped, the other was set back.
    for unknown in (device(None, None, "m1"), device(-1, -1, "m1")):
        assert counted_bytes(node(one, unknown), "received") is None
    assert counted_bytes(node(), "received") is None
    # Devices are read one after another. The time is that between the two readings of the last one.
    later = replace(other, samples=[DeviceSample(5.1, 0, 0), DeviceSample(15.3, 30, 3)])
    assert counted_bytes(node(one, later), "received").over_s == pytest.approx(10.2)
    # Two soft-RoCE devices may share the counter of the interface below them. It counts once.
    assert counted_bytes(node(one, replace(one, device="rxe1")), "received") == Count(
        "rdma:m0/1", 400, 10.0
    )


# Writers.


def test_a_writers_record_has_the_figures_of_the_window() -> None:
    writer_series = writer(rows(50, 90, 80, 70), counted_alone_b_s=150.0, fields={"message_b": 64})
    stored = record(writer_series, node(device(160)))
    assert (stored.injector, stored.origin, stored.target) == ("perftest", "n9", "n1")
    assert (stored.transport, stored.message_b, stored.rate_alone_b_s) == ("RoCE", 64, 100.0)
    assert (stored.rate_b_s, stored.rate_min_b_s, stored.bytes_b) == (85.0, 80.0, 170.0)
    assert (stored.observed_share, stored.unobserved_s, stored.rate_before_b_s) == (1.0, 0.0, None)
    assert (stored.counted_b, stored.counted_s, stored.counter) == (160, 10.0, "rdma:m0/1")
    assert (stored.counted_alone_b_s, stored.proof) == (150.0, "device")
    assert (stored.cpu_share, stored.buffer_node) == (None, None)


def test_a_record_has_the_footprint_and_the_queue_pairs() -> None:
    """Each queue pair of perftest overwrites a buffer of one message."""
    fields = {"message_b": 65536, "queue_pairs": 3}
    stored = record(writer(rows(100, 100, 100), fields=fields))
    assert (stored.footprint_b, stored.queue_pairs) == (3 * 65536, 3)
    control = record(writer(rows(1, 1, 1), injector="spin", fields=fields))
    assert (control.footprint_b, control.queue_pairs) == (0, None)


def test_a_control_has_a_share_of_a_core_and_no_bytes_nor_proof() -> None:
    writer_series = writer(
        rows(0.5, 0.4, 0.3, 0.9), injector="spin", transport="none", meter=MEMORY
    )
    stored = record(writer_series, node(device(1040)))
    assert (stored.cpu_share, stored.observed_share) == (pytest.approx(0.35), 1.0)
    assert (stored.message_b, stored.bytes_b, stored.rate_b_s, stored.rate_min_b_s) == (0, 0, 0, 0)
    assert (stored.rate_alone_b_s, stored.rate_before_b_s, stored.transport) == (0, None, "none")
    assert (stored.counted_b, stored.proof, unproven_note(Series(), [stored])) == (None, None, None)
    (later,) = writer_records(Series(writers=[writer_series]), (2.5, 3.5))
    assert later.rate_before_b_s is None  # a row from 1 s to 2 s comes before


@pytest.mark.parametrize(
    ("name", "asked_b_s", "stored"),
    [("perftest", None, None), ("perftest", 5e8, "software"), ("ucx", 5e8, "agent")],
)
def test_a_record_says_what_limited_the_writer(
    name: str, asked_b_s: float | None, stored: str | None
) -> None:
    limited = record(writer(rows(100, 100, 100), injector=name, fields={"rate_b_s": asked_b_s}))
    assert (limited.limited_by, limited.asked_b_s) == (stored, asked_b_s)


def test_rows_at_the_edges_of_a_run_are_divided_as_the_meter_counted() -> None:
    """In the run, from 10.5 s to 11.8 s, 1000 B/s are written; before and after it, 3000 B/s."""
    reported = [*rows(2500, 2500, start_s=8), *rows(2000, 1400, start_s=10)]
    passed_b = [(9, 0), (10, 2500), (10.5, 4000), (11, 4500), (11.8, 5300), (12, 5900)]
    samples = [CounterSample(*reading) for reading in passed_b]
    writer_series = writer(reported, alone_b_s=3000.0, samples=samples)
    (stored,) = writer_records(Series(writers=[writer_series]), (10.5, 11.8))
    assert (stored.bytes_b, stored.rate_b_s) == pytest.approx((1300, 1000))
    assert stored.rate_before_b_s == 2500.0


# What proves the writes of a writer: its target's memory, or a device.


@pytest.mark.parametrize(
    ("shown", "share", "proof"),
    [
        (20, 1.0, "memory"),
        (18, 1.0, "memory"),  # the last two reports come late; all bytes of 4.5 s were found
        (14, 350 / 450, "memory"),
        (13, 325 / 450, "unproven"),
        (0, 0.0, "unproven"),
    ],
)
def test_memory_proves_if_it_has_most_of_the_bytes_claimed(
    shown: int, share: float, proof: str
) -> None:
    """100 B/s are claimed for 5 s; they are found in memory in `shown` quarters of a second."""
    samples = counted(*[100] * shown, *[0] * (20 - shown))
    writer_series = writer(rows(*[100] * 9), samples=samples, meter=MEMORY)
    (stored,) = writer_records(Series(writers=[writer_series]), (0.0, 5.0))
    assert (stored.proof, stored.overwritten_share) == (proof, pytest.approx(share))
    note = unproven_note(Series(writers=[writer_series]), [stored]) or ""
    doubt = f"its memory shows {100 * share:.0f} % of what they claim, but 75 % are needed"
    assert (doubt in note) == (proof == "unproven")
    by_device = replace(writer_series, meter=MeterRecord(0, "sent by eth0"))
    assert record(by_device, node(device(160))).proof == "device"
    assert record(by_device).overwritten_share is None
    assert record(replace(writer_series, samples=[])).overwritten_share is None


@pytest.mark.parametrize(
    ("samples", "share"),
    [
        # 40 B/s are found for two seconds before the window, then the claimed 100 B/s.
        (counted(*[40] * 8, *[100] * 20), 1.0),
        # The memory is first read a second after the window's start. Of the 450 B of 4.5 s, 400 B
        # were found.
        (counted(*[100] * 16, start_s=3.0), 400 / 450),
        (counted(*[100] * 4), 0.0),  # the memory is last read before the window
        (counted(*[150] * 36), 1.0),  # more bytes are found than were claimed
    ],
)
def test_the_share_found_in_memory_is_of_the_window(samples: Any, share: float) -> None:
    """100 B/s are claimed in a window from 2 s to 7 s."""
    writer_series = writer(rows(*[100] * 9), samples=samples, meter=MEMORY)
    (stored,) = writer_records(Series(writers=[writer_series]), (2.0, 7.0))
    assert stored.overwritten_share == pytest.approx(share)


def test_nothing_found_in_a_window_shorter_than_two_reports_is_a_share_of_0() -> None:
    writer_series = writer(rows(*[100] * 9), samples=counted(*[0] * 20), meter=MEMORY)
    (stored,) = writer_records(Series(writers=[writer_series]), (2.0, 2.4))
    assert stored.overwritten_share == 0.0


def test_unproven_writes_are_noted_with_the_reason() -> None:
    uncounted = MeterRecord(0, fault="nothing counts what passes over shared memory")
    all_series = [
        writer(rows(100, 100, 100), meter=uncounted, fields={"target": target})
        for target in ("n1", "n2", "n3")
    ]
    series = Series(nodes=[node(device(160))], writers=all_series)
    note = str(unproven_note(series, writer_records(series, WINDOW)))
    assert "n2, n3" in note
    assert "n1" not in note
    assert "(nothing counts what passes over shared memory)" in note
    # The memory of n1 proves its writes. Nothing looked at the memory of n2.
    proven = writer(rows(*[100] * 3), samples=counted(*[100] * 12), meter=MEMORY)
    unknown = writer(rows(*[100] * 3), fields={"target": "n2"})
    two = Series(writers=[proven, unknown])
    note = str(unproven_note(two, writer_records(two, WINDOW)))
    assert "at n2, and its memory was not looked at:" in note
    shared_claim = Series(claims=[claim(1000, MANY_TARGETS)])
    assert "the targets" in str(unproven_note(shared_claim, writer_records(shared_claim, WINDOW)))


def test_writers_with_many_targets_have_the_sum_of_all_targets_counts() -> None:
    """n1 counted 550 B in 2 s, n2 700 B in 2.5 s."""
    claims = [claim(1000, MANY_TARGETS), claim(500, MANY_TARGETS)]
    nodes = [node(device(550, over_s=2.0)), node(device(700, name="m1", over_s=2.5), name="n2")]
    for stored in writer_records(Series(nodes=nodes, claims=claims), WINDOW):
        assert (stored.counter, stored.counted_b) == ("rdma:m0/1+rdma:m1/1", 1250)
        assert (stored.counted_s, stored.counted_alone_b_s) == (2.5, None)
    # If one target has no count, the counts of the others prove nothing.
    lost = [nodes[0], node(device(None), name="n2")]
    (stored, _) = writer_records(Series(nodes=lost, claims=claims), WINDOW)
    assert (stored.counted_b, stored.proof) == (None, "unproven")


# Where the buffers of a writer lay.


def test_the_record_has_the_placement_of_both_ends() -> None:
    ends = [
        Placement(
            writer=1,
            role="target",
            own_binding="off",
            buffers_b={"0": 5},
            pinned_b=2048,
            huge_b=4096,
        ),
        Placement(writer=1, role="origin", own_binding="off", buffers_b={"1": 7}),
    ]
    stored = record(writer([], placed=ends))
    assert stored.own_binding == "off"
    assert (stored.target_buffers_b, stored.origin_buffers_b) == ({"0": 5}, {"1": 7})
    assert (stored.target_pinned_b, stored.target_huge_b) == (2048, 4096)
    assert stored.target_on_node_share is None
    unknown = record(writer([]))
    assert (unknown.own_binding, unknown.target_buffers_b, unknown.target_pinned_b) == (
        None,
        {},
        None,
    )


def test_options_of_both_ends_are_recorded() -> None:
    ends = [
        Placement(
            writer=0,
            role="target",
            own_binding="none",
            buffers_b={},
            options=["-x", "3", "--tclass=106"],
        ),
        Placement(
            writer=0,
            role="origin",
            own_binding="none",
            buffers_b={},
            options=["-x", "1", "--tclass=106"],
        ),
    ]
    stored = record(writer([], placed=ends))
    assert (stored.target_options, stored.origin_options) == (
        "-x 3 --tclass=106",
        "-x 1 --tclass=106",
    )
    assert record(writer([])).target_options is None


@pytest.mark.parametrize(
    ("transport", "target_b", "origin_b", "share"),
    [
        ("RoCE", {"1": 3, "0": 1}, {}, 0.75),
        ("RoCE", {}, {"1": 8}, None),  # the place of the target's buffer is unknown
        ("shared memory", {}, {"1": 6, "0": 2}, 0.75),
        ("shared memory", {"1": 1, "0": 3}, {"1": 6, "0": 2}, 0.25),
        ("RoCE", {"0": 4}, {}, 0.0),
    ],
)
def test_how_much_of_the_targets_buffer_lay_on_its_node(
    transport: str, target_b: dict[str, int], origin_b: dict[str, int], share: float | None
) -> None:
    ends = [
        Placement(writer=0, role="target", own_binding="none", buffers_b=target_b),
        Placement(writer=0, role="origin", own_binding="none", buffers_b=origin_b),
    ]
    writer_series = writer([], transport=transport, placed=ends, fields={"buffer_node": 1})
    assert record(writer_series).target_on_node_share == share
