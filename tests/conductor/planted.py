"""Series made by hand: a writer that reaches 100 B/s alone, in rows of a second; a quiet target."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conductor.injectors.base import Writer
from conductor.judge.series import (
    CounterSample,
    DeviceSample,
    DeviceSeries,
    LoadSample,
    Metered,
    NodeSeries,
    RateRow,
    WriterSeries,
)
from records.sample import WriterRecord

MEMORY = Metered(0, "the target's memory", memory=True)


def rows(*rates_b_s: float, start_s: float = 0.0) -> list[RateRow]:
    """Rows of a second, one after the other."""
    return [RateRow(start_s + at, start_s + at + 1, rate) for at, rate in enumerate(rates_b_s)]


def counted(*rates_b_s: float, start_s: float = 0.0, every_s: float = 0.25) -> list[CounterSample]:
    """What is counted of a writer that holds each rate for a quarter of a second."""
    samples, total = [CounterSample(start_s, 1e9)], 1e9
    for number, rate_b_s in enumerate(rates_b_s, 1):
        total += rate_b_s * every_s
        samples.append(CounterSample(start_s + number * every_s, total))
    return samples


def writer(
    reported: list[RateRow],
    *,
    injector: str = "perftest",
    of: Mapping[str, Any] = {},
    **changes: Any,
) -> WriterSeries:
    """A writer with these rows; `of`: fields of its plan."""
    fixed = {"index": 0, "origin": "n9", "target": "n1", "address": "10.0.0.9", "port": 20000}
    planned = Writer(**{**fixed, "message_b": 1, **of})
    seen = WriterSeries(0, injector, planned, "RoCE", 1.0, rows=reported, alone_b_s=100.0)
    return replace(seen, **changes)


def device(
    received_b: int | None = 0, sent_b: int | None = 0, name: str = "m0", over_s: float = 10.0
) -> DeviceSeries:
    """A device that counts so much, from 1000 B on."""
    last = [None if gone_b is None else 1000 + gone_b for gone_b in (received_b, sent_b)]
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
    """A target of which 1000 ticks pass; by default quiet, and read for 10 s."""
    loads = [LoadSample(4.0, 0.0, 5, 1000), LoadSample(4.0 + over_s, foreign_s, 5 + stolen, 2000)]
    return NodeSeries(name, list(devices), loads, **{"busiest": "stress", **changes})


def claim(bytes_b: float = 1000.0, target: str = "n1", **changes: Any) -> WriterRecord:
    """What a writer of a timetable claims."""
    fixed = {"injector": "perftest", "origin": "n9", "transport": "RoCE", "message_b": 64}
    rates_b_s = {"rate_alone_b_s": 100.0, "rate_b_s": 100.0, "rate_min_b_s": 100.0}
    record = WriterRecord(**fixed, **rates_b_s, target=target, asked_b_s=None, bytes_b=bytes_b)
    return replace(record, **changes)


#: A writer that reaches 3000 B/s alone, and 1000 B/s while an application runs, from 10.5 to 11.8:
#: 1300 bytes. Rows are means of whole seconds; the two that the application shares have 2000 and
#: 1400.
SHORT = [*rows(500, 3000, 3000, start_s=7), RateRow(10, 11, 2000), RateRow(11, 12, 1400)]

#: Rows of perftest, which pauses for 0.2 to 0.4 s between them.
PERFTEST = [RateRow(end - 1, end, 100.0) for end in (1.0, 2.22, 3.6, 4.9, 6.2)]
