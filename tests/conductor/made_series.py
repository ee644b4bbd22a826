"""Made series of a run: of a writer with rows of one second, and of a quiet target node.

The writer's *rate alone*, the rate that it reaches without an application, is 100 B/s.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conductor.injectors.base import Writer
from conductor.judge.judge import judge
from conductor.judge.series import Series, Window, WriterSeries
from conductor.readings import (
    CounterSample,
    DeviceSample,
    DeviceSeries,
    LoadSample,
    MeterRecord,
    NodeSeries,
    RateRow,
)
from records.acceptance import AcceptanceLimits
from records.sample import WriterRecord

MEMORY = MeterRecord(0, "the target's memory", in_memory=True)


def rows(*rates_b_s: float, start_s: float = 0.0) -> list[RateRow]:
    """Return rows of one second with these rates, one after the other."""
    return [
        RateRow(start_s + second, start_s + second + 1, rate)
        for second, rate in enumerate(rates_b_s)
    ]


def counted(*rates_b_s: float, start_s: float = 0.0, every_s: float = 0.25) -> list[CounterSample]:
    """Return the counter samples of a writer that holds each rate for `every_s`."""
    total = 1e9
    samples = [CounterSample(start_s, total)]
    for number, rate_b_s in enumerate(rates_b_s, 1):
        total += rate_b_s * every_s
        samples.append(CounterSample(start_s + number * every_s, total))
    return samples


def writer(
    reported: list[RateRow],
    *,
    injector: str = "perftest",
    fields: Mapping[str, Any] = {},
    **changes: Any,
) -> WriterSeries:
    """Return the series of a writer with these rows.

    `fields` replace fields of the planned writer, and `changes` fields of the series.
    """
    fixed = {"index": 0, "origin": "n9", "target": "n1", "address": "10.0.0.9", "port": 20000}
    planned = Writer(**{**fixed, "message_b": 1, **fields})
    series = WriterSeries(
        number=0,
        injector=injector,
        writer=planned,
        transport="RoCE",
        row_s=1.0,
        rows=reported,
        alone_b_s=100.0,
    )
    return replace(series, **changes)


def device(
    received_b: int | None = 0, sent_b: int | None = 0, name: str = "m0", over_s: float = 10.0
) -> DeviceSeries:
    """Return the series of a device whose counters start at 1000 B and rise by these bytes.

    None means that the device has no such counter.
    """
    last = [None if rise_b is None else 1000 + rise_b for rise_b in (received_b, sent_b)]
    samples = [DeviceSample(5.0, 1000, 1000), DeviceSample(5.0 + over_s, *last)]
    return DeviceSeries(name, f"rdma:{name}/1", samples)


def node(
    *devices: DeviceSeries,
    name: str = "n1",
    over_s: float = 10.0,
    foreign_s: float | None = 0.2,
    stolen: int = 1,
    **changes: Any,
) -> NodeSeries:
    """Return the series of a target that is watched for `over_s`, in which 1000 ticks pass.

    By default, foreign processes and the hypervisor use little of its time.
    """
    loads = [LoadSample(4.0, 0.0, 5, 1000), LoadSample(4.0 + over_s, foreign_s, 5 + stolen, 2000)]
    return NodeSeries(
        node=name, devices=list(devices), loads=loads, **{"busiest_program": "stress", **changes}
    )


def claim(bytes_b: float = 1000.0, target: str = "n1", **changes: Any) -> WriterRecord:
    """Return the record of a writer under a timetable, with the bytes that it claims."""
    fixed = {"injector": "perftest", "origin": "n9", "transport": "RoCE", "message_b": 64}
    rates_b_s = {"rate_alone_b_s": 100.0, "rate_b_s": 100.0, "rate_min_b_s": 100.0}
    record = WriterRecord(**fixed, **rates_b_s, target=target, asked_b_s=None, bytes_b=bytes_b)
    return replace(record, **changes)


#: Rows of a writer that reaches 3000 B/s without an application. While an application runs, from
#: 10.5 s to 11.8 s, it writes 1000 B/s, which are 1300 bytes. Each row is the mean of a whole
#: second. The two rows that overlap the application have 2000 B/s and 1400 B/s.
SHORT = [*rows(500, 3000, 3000, start_s=7), RateRow(10, 11, 2000), RateRow(11, 12, 1400)]

#: Rows of perftest, which pauses for 0.2 s to 0.4 s between two rows.
PERFTEST = [RateRow(end - 1, end, 100.0) for end in (1.0, 2.22, 3.6, 4.9, 6.2)]


# The judge, and its reasons to reject a run.

LIMITS = AcceptanceLimits(late_rows=3.0)
#: A run of ten seconds, in seconds.
WINDOW = (0.0, 10.0)


def reasons(series: Series, window_s: Window = WINDOW, **limits: Any) -> list[str]:
    """Return why a run with this series is rejected; `limits` replace fields of `LIMITS`."""
    return judge(series, window_s, replace(LIMITS, **limits)).reasons


def assert_named(lines: list[str], reason: str | None) -> None:
    """Assert that the first line contains `reason`, or that there is no line if it is None."""
    assert lines == [] if reason is None else lines and reason in lines[0], lines
