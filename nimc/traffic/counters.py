"""Counters become bytes per second: what is a gap, reset, wrap or stop, and what arrived when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nimc.base.errors import InputError
from nimc.traffic.formats import COUNTERS
from nimc.traffic.trace import COLUMNS, SCHEMA, Break, Source, Trace, TraceHeader

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

    Raises InputError if files disagree, if a node has two metrics, which may count the same bytes,
    or if no second is known.
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
