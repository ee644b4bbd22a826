"""The monitoring files that a trace is made from, and the trace that their counters make.

The format is recognised by the content:

- Prometheus, the answer of `/api/v1/query_range`, with counters of node_exporter. Since its version
  0.15 both are in bytes: it multiplies `port_rcv_data` by four (its pull request 579).
- Plain CSV, `time_s,node,bytes`: bytes that arrived in the second that begins at `time_s`.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from records.errors import InputError, show
from records.json_limits import parsed, read_text
from records.traffic.trace import COLUMNS, MOST_B, SCHEMA, Break, Source, Trace, TraceHeader

_INFINIBAND = "node_infiniband_port_data_received_bytes_total"
_INTERFACES = "node_network_receive_bytes_total"
#: InfiniBand's counter of 32 bits, in units of four bytes, stops there until it is cleared.
_STOPPED = (4 << 32) - 4
#: The metric of plain CSV, which is no counter.
BYTES = "bytes"
_PLAIN = f"time_s,node,{BYTES}"
_LOOPBACK = "lo"
#: So often a counter must have grown for it to show the time between scrapes.
_GROWN = 10


def read(path: Path) -> tuple[Source, pl.DataFrame]:
    """The samples of a file: `metric`, `node`, `device`, `time_s`, `count`.

    Raises InputError for one of another format.
    """
    content = read_text(path, MOST_B)
    text = content.removeprefix(codecs.BOM_UTF8)
    begin = text[:4096].lstrip().split(b"\n")[0].strip()
    if begin.startswith(b"{"):
        name, parts = "Prometheus", list(_prometheus(parsed(text, str(path)), path))
        _require_step_of_scrapes(parts, path)
    elif begin.replace(b'"', b"") == _PLAIN.encode():
        name, parts = "CSV", [_plain(text, path)]
    else:
        raise InputError(
            f"{path}: of no known format; allowed: a Prometheus answer (JSON), or CSV with the"
            f" header {_PLAIN}"
        )
    if not any(map(len, parts)):
        raise InputError(f"{path}: no sample of a counter found; allowed: at least one")
    samples = pl.concat(parts)
    metrics = samples["metric"].unique().sort().to_list()
    return Source(path.name, hashlib.sha256(content).hexdigest(), name, metrics), samples


def _samples(
    metric: str, node: pl.Series | str, device: str, times: pl.Series, counts: pl.Series
) -> pl.DataFrame:
    frame = pl.DataFrame({"time_s": times, "count": counts})
    names = {"metric": metric, "node": node, "device": device}
    columns = [pl.lit(value).alias(name) for name, value in names.items()]
    return frame.select(*columns, "time_s", "count")


def _prometheus(answer: Any, path: Path) -> Iterator[pl.DataFrame]:
    """The series of an answer, but for the loopback interface."""
    if answer.get("status") != "success":
        raise InputError(f"{path}: status: {show(answer.get('status'))} found; allowed: 'success'")
    data = answer.get("data")
    kind, result = map(data.get, ("resultType", "result")) if isinstance(data, dict) else (None, 0)
    if kind != "matrix" or not isinstance(result, list):
        raise InputError(
            f"{path}: data.resultType: {show(kind)} found; allowed: 'matrix', of query_range"
        )
    for index, series in enumerate(result):
        at = f"{path}: data.result.{index}"
        labels = series.get("metric") if isinstance(series, dict) else None
        labels = labels if isinstance(labels, dict) else {}
        metric, node, device, port = (
            str(labels.get(key, "")) for key in ("__name__", "instance", "device", "port")
        )
        if metric not in (_INFINIBAND, _INTERFACES):
            raise InputError(
                f"{at}.metric.__name__: {show(metric or None)} found; allowed: {_INFINIBAND},"
                f" {_INTERFACES}, without rate() or sum()"
            )
        if not node:
            raise InputError(f"{at}.metric.instance: missing")
        if device == _LOOPBACK:
            continue
        try:
            times, texts = zip(*series["values"], strict=True)
            pairs = pl.DataFrame({"times": map(float, times), "counts": map(float, texts)})
        except (KeyError, TypeError, ValueError):
            raise InputError(f'{at}.values: allowed: [[1435781430.781, "1024"], ...]') from None
        counts = _numbers(pairs["counts"], pl.UInt64, f"{at}.values", "a count")
        host, colon, number = node.rpartition(":")
        node = host if colon and number.isdigit() else node
        device = ".".join(filter(None, (device, port)))
        yield _samples(metric, node, device, pairs["times"], counts)


def _require_step_of_scrapes(parts: list[pl.DataFrame], path: Path) -> None:
    """Raise InputError if the step of the query is shorter than the time between two scrapes.

    Prometheus repeats the last value then: all counters grow at every second sample, or every
    third, ..., and bursts would be seen that there were not.
    """
    grown = [(part["count"] != part["count"].shift()).arg_true() for part in parts]
    steps = {step for at in grown for step in at.diff().drop_nulls()}
    if len(steps) == 1 and (step := steps.pop()) > 1 and max(map(len, grown)) >= _GROWN:
        raise InputError(
            f"{path}: counters grow at one of {step} samples only; allowed: an answer whose step"
            " is the time between two scrapes"
        )


def _plain(text: bytes, path: Path) -> pl.DataFrame:
    """Bytes of seconds."""
    try:
        frame = pl.read_csv(text, infer_schema=False)
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise InputError(f"{path}: {str(error).splitlines()[0]}") from None
    times = _numbers(frame["time_s"], pl.Int64, f"{path}: time_s", "a whole number of seconds")
    counts = _numbers(frame[BYTES], pl.UInt64, f"{path}: {BYTES}", "a count")
    return _samples(BYTES, frame["node"], "", times.cast(pl.Float64), counts)


def _numbers(column: pl.Series, kind: type[pl.DataType], at: str, allowed: str) -> pl.Series:
    """A column as numbers. Raises InputError, beginning with `at`, for the first that is none."""
    numbers = column.cast(kind, strict=False)
    if (wrong := numbers.is_null()).any():
        raise InputError(f"{at}: {show(column.filter(wrong)[0])} found; allowed: {allowed}")
    return numbers


# From counters to bytes per second: what is a gap or a reset, and what arrived when.


#: Samples that are further apart than so many usual intervals have a gap between them.
_GAP = 1.5
#: A second is complete if no more of it than this is missing, seconds: rounding of times.
_ROUNDING_S = 1e-5
#: Longest time of a trace, seconds: more comes from a wrong unit.
_LONGEST_S = 366 * 86400.0

Values = NDArray[np.float64]


class Intervals(NamedTuple):
    """What arrived between samples, in order of time."""

    starts_s: Values
    ends_s: Values
    bytes_b: Values
    #: Time between two samples, median.
    resolution_s: float
    breaks: list[Break]


def trace(read: Sequence[tuple[Source, pl.DataFrame]]) -> Trace:
    """The trace of all files together.

    Raises InputError if files disagree, if metrics or devices of a node may count the same bytes,
    or if no second is complete.
    """
    samples = pl.concat(part for _, part in read).unique().sort("node", "device", "time_s")
    for name, group in (("metric", ["node"]), ("count", ["node", "device", "time_s"])):
        unlike = samples.group_by(group, maintain_order=True).agg(pl.col(name).unique())
        for *at, values in unlike.filter(pl.col(name).list.len() > 1).head(1).rows():
            both = " and ".join(map(str, sorted(values)[:2]))
            raise InputError(f"{' '.join(map(str, at))}: {name}: {both} found; allowed: one")
    _require_one_interface(samples)
    counted = {
        (str(node), str(device)): intervals(str(node), str(device), part)
        for (node, device), part in samples.group_by("node", "device", maintain_order=True)
    }
    per_second = [
        _seconds(part).select(pl.lit(node).alias("node"), "time_s", "bytes")
        for (node, _), part in counted.items()
        if part.starts_s.size
    ]
    devices = samples.group_by("node").agg(pl.col("device").n_unique().alias("devices"))
    seconds = (
        pl.concat([pl.DataFrame(schema=dict(COLUMNS)), *per_second])
        .group_by("node", "time_s")
        .agg(pl.col("bytes").sum(), pl.len().alias("complete"))
        .join(devices, on="node")
        .filter(pl.col("complete") == pl.col("devices"))
        .select(*COLUMNS)
        .sort("node", "time_s")
    )
    if seconds.is_empty():
        raise InputError("no whole second is known of any node; allowed: two samples or more")
    header = TraceHeader(
        schema=SCHEMA,
        sources=[source for source, _ in read],
        resolution_s=max(part.resolution_s for part in counted.values()),
        breaks=[part for one in counted.values() for part in one.breaks],
    )
    return Trace(header, seconds)


def _require_one_interface(samples: pl.DataFrame) -> None:
    """Raise InputError if several network interfaces of a node grow.

    Bonds, bridges, VLANs and interfaces of containers count again what others count.
    """
    grow = (
        samples.filter(pl.col("metric") == _INTERFACES)
        .group_by("node", "device", maintain_order=True)
        .agg(pl.col("count").n_unique().alias("counts"))
        .filter(pl.col("counts") > 1)
    )
    for (node,), part in grow.group_by("node", maintain_order=True):
        if len(part) > 1:
            raise InputError(
                f"{node}: devices {', '.join(part['device'])} found, of which one may count what"
                f' others do; allowed: one (Prometheus: device="{part["device"][0]}")'
            )


def intervals(node: str, device: str, samples: pl.DataFrame) -> Intervals:
    """What arrived between the samples of one counter, or in the seconds of plain CSV."""
    metric = samples["metric"][0]
    if metric == _INFINIBAND:
        samples = samples.filter(pl.col("count") != _STOPPED)
    times_s, counts = samples["time_s"].to_numpy(), samples["count"].to_numpy()
    if metric == BYTES:
        gaps = [
            Break("gap", node, device, float(times_s[at]) + 1, float(times_s[at + 1]))
            for at in np.flatnonzero(np.diff(times_s) > 1)
        ]
        return Intervals(times_s, times_s + 1.0, counts.astype(np.float64), 1.0, gaps)
    lengths_s = np.diff(times_s)
    usual_s = float(np.median(lengths_s)) if lengths_s.size else 0.0
    far, fell = lengths_s > _GAP * usual_s, counts[1:] < counts[:-1]
    whole = ~(far | fell)
    breaks = [
        Break("gap" if gap else "reset", node, device, *map(float, times_s[at : at + 2]))
        for at, gap in enumerate(far)
        if not whole[at]
    ]
    grew_b = np.diff(counts)[whole].astype(np.float64)
    return Intervals(times_s[:-1][whole], times_s[1:][whole], grew_b, usual_s, breaks)


def _seconds(intervals: Intervals) -> pl.DataFrame:
    """Bytes of every second that the intervals cover, each spread evenly over its length."""
    starts_s, ends_s, bytes_b, *_ = intervals
    first, last = np.floor(starts_s[0]), np.ceil(ends_s[-1])
    if not (first >= 0 and last - first <= _LONGEST_S):
        raise InputError(
            f"times from {first:g} to {last:g} s found; allowed: Unix times in seconds, of a year"
            " at most"
        )
    edges_s = np.column_stack((starts_s, ends_s)).ravel()
    at_s = np.arange(first, last + 1)

    def within(amounts: Values) -> Values:
        sums = np.cumsum(amounts)
        passed = np.column_stack((sums - amounts, sums)).ravel()
        return np.diff(np.interp(at_s, edges_s, passed))

    complete = within(ends_s - starts_s) > 1 - _ROUNDING_S
    amounts = within(bytes_b)[complete]
    return pl.DataFrame({"time_s": at_s[:-1][complete].astype(np.int64), "bytes": amounts})
