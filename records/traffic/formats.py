"""The monitoring files that a trace is made from, and the trace that their counters make.

The format is found out from the content:

- Prometheus, the answer of `/api/v1/query_range`, with counters of node_exporter. Since its version
  0.15 both are in bytes: it multiplies `port_rcv_data` by four (its pull request 579).
- LDMS, files of `store_csv`: columns `port_rcv_data` (ibmad), `ib.port_rcv_data#DEVICE.PORT`
  (sysclassib) and `rx_bytes#INTERFACE` (procnetdev). `port_rcv_data` is in units of four bytes, as
  the device counts (perfquery(8), Linux: `ABI/stable/sysfs-class-infiniband`).
- Plain CSV, `time_s,node,bytes`: bytes that arrived in the second that begins at `time_s`.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from records.errors import InputError, show
from records.json_limits import parsed, read_text
from records.traffic.trace import COLUMNS, MOST_B, SCHEMA, Break, Source, Trace, TraceHeader


class Counter(NamedTuple):
    """What a metric counts in: bytes of one count, and where one of 32 bits begins again.

    InfiniBand's does not: it stops at its largest value until it is cleared.
    """

    unit_b: int
    wraps_at: int
    stops_at: int | None = None


_PROMETHEUS = {
    "node_infiniband_port_data_received_bytes_total": Counter(1, 4 << 32, (4 << 32) - 4),
    "node_network_receive_bytes_total": Counter(1, 1 << 32),
}
_LDMS = {"port_rcv_data": Counter(4, 1 << 32, (1 << 32) - 1), "rx_bytes": Counter(1, 1 << 32)}
COUNTERS = _PROMETHEUS | _LDMS
#: Counters of network interfaces, of which Linux stacks some on others.
_OF_INTERFACES = ("node_network_receive_bytes_total", "rx_bytes")
#: Names of interfaces that count again what others count: bonds, bridges, VLANs, tunnels, and what
#: containers and virtual machines are connected with.
_STACKED = re.compile(
    r"(bond|team|lag|br|virbr|vmbr|lxdbr|docker|podman|cni|nerdctl|veth|vnet|vif|fwbr|fwpr|fwln|lxc"
    r"|cali|cilium|flannel|weave|kube|nodelocal|ovs|genev|vlan|macv|ipvl|vxlan|tun|tap|wg|gre|sit"
    r"|ip6tnl|ip_vti|ifb|dummy)[\w.:@-]*|.+[.@:].+",
    re.IGNORECASE,
)
#: An interface that always grows by the sum of all others, to this share of it, is stacked on them.
_SUM_SHARE = 0.01
#: The metric of plain CSV, which is no counter.
BYTES = "bytes"
_PLAIN = f"time_s,node,{BYTES}"
_LOOPBACK = "lo"
_TIME, _COUNT = "a time in seconds", "a count from 0, below 2^64"
#: So often a counter must have grown for it to show the time between scrapes.
_GROWN = 10


def read(path: Path) -> tuple[Source, pl.DataFrame]:
    """The samples of a file: `metric`, `node`, `device`, `time_s`, `count`.

    Raises InputError for one of no known format.
    """
    content = read_text(path, MOST_B)
    text = content.removeprefix(codecs.BOM_UTF8)
    begin = text[:4096].lstrip().split(b"\n")[0].strip()
    header = begin.replace(b'"', b"")
    if begin.startswith(b"{"):
        name, parts = "Prometheus", list(_prometheus(parsed(text, str(path)), path))
        _require_step_of_scrapes(parts, path)
    elif header.startswith(b"#Time,"):
        name, parts = "LDMS", list(_ldms(_table(text, path), path))
    elif header == _PLAIN.encode():
        name, parts = "CSV", [_plain(_table(text, path), path)]
    else:
        raise InputError(
            f"{path}: of no known format; allowed: a Prometheus answer (JSON), LDMS's CSV"
            f" (#Time,...), CSV with the header {_PLAIN}"
        )
    if not any(map(len, parts)):
        raise InputError(f"{path}: no sample of a counter found; allowed: at least one")
    samples = pl.concat(parts)
    metrics = samples["metric"].unique().sort().to_list()
    return Source(path.name, hashlib.sha256(content).hexdigest(), name, metrics), samples


def _samples(
    metric: str, node: pl.Series | str, device: pl.Expr | str, times: pl.Series, counts: pl.Series
) -> pl.DataFrame:
    frame = pl.DataFrame({"time_s": times, "count": counts})
    return frame.select(
        pl.lit(metric).alias("metric"),
        pl.lit(node).alias("node"),
        (pl.lit(device) if isinstance(device, str) else device).alias("device"),
        "time_s",
        "count",
    )


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
    for index, each in enumerate(result):
        at = f"{path}: data.result.{index}"
        labels = each.get("metric") if isinstance(each, dict) else None
        labels = labels if isinstance(labels, dict) else {}
        metric, node, device, port = (
            str(labels.get(key, "")) for key in ("__name__", "instance", "device", "port")
        )
        if metric not in _PROMETHEUS:
            raise InputError(
                f"{at}.metric.__name__: {show(metric or None)} found; allowed:"
                f" {', '.join(_PROMETHEUS)}, without rate() or sum()"
            )
        if not node:
            raise InputError(f"{at}.metric.instance: missing")
        if device == _LOOPBACK:
            continue
        try:
            times, texts = zip(*each["values"], strict=True)
            pairs = pl.DataFrame({"times": map(float, times), "counts": map(float, texts)})
        except (KeyError, TypeError, ValueError):
            raise InputError(f'{at}.values: allowed: [[1435781430.781, "1024"], ...]') from None
        counts = _numbers(pairs["counts"], pl.UInt64, f"{at}.values", _COUNT)
        host, colon, number = node.rpartition(":")
        node = host if colon and number.isdigit() else node
        device = ".".join(filter(None, (device, port)))
        yield _samples(metric, node, device, pairs["times"], counts)


def _require_step_of_scrapes(parts: list[pl.DataFrame], path: Path) -> None:
    """Raise InputError if the step of the query is shorter than the time between two scrapes.

    Prometheus repeats the last value then: all counters grow at every second sample, or every
    third, ..., and bursts would be found that there were not.
    """
    grown = [(part["count"] != part["count"].shift()).arg_true() for part in parts]
    steps = {step for at in grown for step in at.diff().drop_nulls()}
    if len(steps) == 1 and (step := steps.pop()) > 1 and max(map(len, grown)) >= _GROWN:
        raise InputError(
            f"{path}: counters grow at one of {step} samples only; allowed: an answer whose step"
            " is the time between two scrapes"
        )


def _table(text: bytes, path: Path) -> pl.DataFrame:
    """A CSV as text; header lines that are repeated are left out."""
    try:
        frame = pl.read_csv(text, infer_schema=False)
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise InputError(f"{path}: {str(error).splitlines()[0]}") from None
    return frame.filter(pl.first() != frame.columns[0])


def _numbers(
    column: pl.Series, kind: type[pl.DataType], at: str, allowed: str = _TIME
) -> pl.Series:
    """A column as numbers. Raises InputError, beginning with `at`, for the first that is none."""
    found = column.cast(kind, strict=False)
    wrong = found.is_null() if kind is not pl.Float64 else ~found.is_finite().fill_null(False)
    if wrong.any():
        raise InputError(f"{at}: {show(column.filter(wrong)[0])} found; allowed: {allowed}")
    return found


def _ldms(frame: pl.DataFrame, path: Path) -> Iterator[pl.DataFrame]:
    """The columns that count bytes."""
    ports = [frame[name] for name in ("ca_name", "port") if name in frame.columns]
    found = [
        (name, base, device)
        for name in frame.columns
        for base, _, device in [name.removeprefix("ib.").partition("#")]
        if base in _LDMS and device != _LOOPBACK
    ]
    if not found or "ProducerName" not in frame.columns:
        raise InputError(
            f"{path}: columns found: {', '.join(frame.columns)[:200]}; allowed: ProducerName and"
            f" at least one of {', '.join(_LDMS)}, with #DEVICE or without"
        )
    times = _numbers(frame["#Time"], pl.Float64, f"{path}: #Time")
    for name, base, device in found:
        counts = _numbers(frame[name], pl.UInt64, f"{path}: {name}", _COUNT)
        on = pl.concat_str(ports, separator=".") if ports and not device else device
        yield _samples(base, frame["ProducerName"], on, times, counts)


def _plain(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Bytes of seconds."""
    times = _numbers(frame["time_s"], pl.Int64, f"{path}: time_s", "a whole number of seconds")
    counts = _numbers(frame[BYTES], pl.UInt64, f"{path}: {BYTES}", _COUNT)
    return _samples(BYTES, frame["node"], "", times.cast(pl.Float64), counts)


# From counters to bytes per second: what is a gap, reset, wrap or stop, and what arrived when.


#: Samples that are further apart than so many usual intervals have a gap between them.
_GAP = 1.5
#: A fall is a wrap if the counter then grew at most so many times as fast as ever otherwise.
_FASTEST = 2.0
#: A second is known if no more of it than this is missing, seconds: what rounding makes of times.
_ROUNDING_S = 1e-5
#: Longest time of a trace, seconds: more comes from a wrong unit.
_LONGEST_S = 366 * 86400.0

Values = NDArray[np.float64]


class Intervals(NamedTuple):
    """What arrived between samples, in order of time; only wraps are not left out."""

    starts_s: Values
    ends_s: Values
    bytes_b: Values
    #: Time between two samples, median.
    resolution_s: float
    breaks: list[Break]


def trace(read: Sequence[tuple[Source, pl.DataFrame]]) -> Trace:
    """The trace of all files together.

    Raises InputError if files disagree, if metrics or devices of a node count the same bytes, or if
    no second is known.
    """
    samples = pl.concat(each for _, each in read).unique().sort("node", "device", "time_s")
    for name, group in (("metric", ["node"]), ("count", ["node", "device", "time_s"])):
        unlike = samples.group_by(group, maintain_order=True).agg(pl.col(name).unique())
        for *at, values in unlike.filter(pl.col(name).list.len() > 1).head(1).rows():
            found = " and ".join(map(str, sorted(values)[:2]))
            raise InputError(f"{' '.join(map(str, at))}: {name}: {found} found; allowed: one")
    counted = {
        (str(node), str(device)): intervals(str(node), str(device), part)
        for (node, device), part in samples.group_by("node", "device", maintain_order=True)
    }
    interfaces = samples.filter(pl.col("metric").is_in(_OF_INTERFACES))
    for node in interfaces["node"].unique().sort():
        _refuse_stacked(
            node, {device: each for (of, device), each in counted.items() if of == node}
        )
    per_second = [
        _seconds(each).select(pl.lit(node).alias("node"), "time_s", "bytes")
        for (node, _), each in counted.items()
        if each.starts_s.size
    ]
    devices = samples.group_by("node").agg(pl.col("device").n_unique().alias("devices"))
    seconds = (
        pl.concat([pl.DataFrame(schema=dict(COLUMNS)), *per_second])
        .group_by("node", "time_s")
        .agg(pl.col("bytes").sum(), pl.len().alias("known"))
        .join(devices, on="node")
        .filter(pl.col("known") == pl.col("devices"))
        .select(*COLUMNS)
        .sort("node", "time_s")
    )
    if seconds.is_empty():
        raise InputError("no whole second is known of any node; allowed: two samples or more")
    header = TraceHeader(
        schema=SCHEMA,
        sources=[source for source, _ in read],
        resolution_s=max(each.resolution_s for each in counted.values()),
        breaks=[each for one in counted.values() for each in one.breaks],
    )
    return Trace(header, seconds)


def _refuse_stacked(node: str, counted: Mapping[str, Intervals]) -> None:
    """Raise InputError if an interface of a node counts again what the node's others count."""
    grown = {name: each for name, each in counted.items() if each.bytes_b.any()}
    stacked = [name for name in grown if _STACKED.fullmatch(name) or _is_sum(name, grown)]
    if stacked and len(grown) > 1:
        raise InputError(
            f"{node}: devices {', '.join(grown)} found; what others count is counted again by"
            f" {', '.join(stacked)}; allowed: files without them (Prometheus:"
            f' device!~"{"|".join(stacked)}")'
        )


def _is_sum(name: str, grown: Mapping[str, Intervals]) -> bool:
    """Whether an interface grows by the sum of two or more others in every interval."""
    whole = grown[name]
    parts = [each for other, each in grown.items() if other != name]
    if len(parts) < 2 or any(not np.array_equal(each.ends_s, whole.ends_s) for each in parts):
        return False
    rest = whole.bytes_b - np.sum([each.bytes_b for each in parts], axis=0)
    return bool(np.all(np.abs(rest) <= _SUM_SHARE * whole.bytes_b))


def intervals(node: str, device: str, samples: pl.DataFrame) -> Intervals:
    """What arrived between the samples of one counter, or in the seconds of plain CSV."""
    times_s, counts = samples["time_s"].to_numpy(), samples["count"].to_numpy()
    counter = COUNTERS.get(samples["metric"][0])
    if counter is None:
        breaks = [
            Break("gap", node, device, float(times_s[at]) + 1, float(times_s[at + 1]))
            for at in np.flatnonzero(np.diff(times_s) > 1)
        ]
        return Intervals(times_s, times_s + 1.0, counts.astype(np.float64), 1.0, breaks)
    lengths_s = np.diff(times_s)
    usual_s = float(np.median(lengths_s)) if lengths_s.size else 0.0
    grew = np.diff(counts).astype(np.float64)  # of unsigned numbers: modulo 2^64
    whole, fell = lengths_s <= _GAP * usual_s, counts[1:] < counts[:-1]
    stuck = counts == counter.stops_at
    stopped = stuck[1:] | stuck[:-1]
    fastest = float(np.max((grew / lengths_s)[whole & ~fell & ~stopped], initial=0.0))
    breaks = []
    for at in np.flatnonzero(~whole | fell | stopped):
        start_s, end_s = float(times_s[at]), float(times_s[at + 1])
        if stopped[at]:
            if breaks and (breaks[-1].kind, breaks[-1].end_s) == ("stop", start_s):
                start_s = breaks.pop().start_s
            breaks.append(Break("stop", node, device, start_s, end_s))
            whole[at] = False
            continue
        if not whole[at]:
            breaks.append(Break("gap", node, device, start_s, end_s))
            continue
        before, after = int(counts[at]), int(counts[at + 1])
        for bits, largest in ((32, counter.wraps_at), (64, 1 << 64)):
            more = largest - before + after
            if before < largest and more <= _FASTEST * fastest * (end_s - start_s):
                breaks.append(Break("wrap", node, device, start_s, end_s, bits))
                grew[at] = more
                break
        else:
            breaks.append(Break("reset", node, device, start_s, end_s))
            whole[at] = False
    starts_s, ends_s = times_s[:-1][whole], times_s[1:][whole]
    return Intervals(starts_s, ends_s, counter.unit_b * grew[whole], usual_s, breaks)


def _seconds(found: Intervals) -> pl.DataFrame:
    """Bytes of every second that the intervals cover, each spread evenly over its length."""
    starts_s, ends_s, bytes_b, *_ = found
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

    known = within(ends_s - starts_s) > 1 - _ROUNDING_S
    amounts = within(bytes_b)[known]
    return pl.DataFrame({"time_s": at_s[:-1][known].astype(np.int64), "bytes": amounts})
