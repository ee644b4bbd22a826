"""The monitoring files that a trace is made from; the format is found out from the content.

- Prometheus, the answer of `/api/v1/query_range`, with counters of node_exporter. Since its version
  0.15 both are in bytes: it multiplies `port_rcv_data` by four (its pull request 579).
- LDMS, files of `store_csv`: columns `port_rcv_data` (ibmad), `ib.port_rcv_data#DEVICE.PORT`
  (sysclassib) and `rx_bytes#INTERFACE` (procnetdev). `port_rcv_data` is in units of four bytes, as
  the device counts (perfquery(8), Linux: `ABI/stable/sysfs-class-infiniband`).
- Plain CSV, `time_s,node,bytes`: bytes that arrived in the second that begins at `time_s`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nimc.base.errors import InputError, show
from nimc.base.json_limits import parsed, read_text
from nimc.traffic.trace import MOST_B, Source


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
    text = read_text(path, MOST_B)
    begin = text[:4096].lstrip().split(b"\n")[0].strip()
    if begin.startswith(b"{"):
        name, parts = "Prometheus", list(_prometheus(parsed(text, str(path)), path))
        _require_step_of_scrapes(parts, path)
    elif begin.startswith(b"#Time,"):
        name, parts = "LDMS", list(_ldms(_table(text, path), path))
    elif begin == _PLAIN.encode():
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
    return Source(path.name, hashlib.sha256(text).hexdigest(), name, metrics), samples


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
