"""A site's own traffic: how often nodes are written to, in which bursts, and how many at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.subjects.writers import Writers, concurrent_writers
from records.traffic.trace import Trace, TraceHeader

#: Without another threshold, a node is written to in seconds with more than this share of the
#: bytes of the trace's busiest second of a node.
SHARE = 0.1
#: Nodes in tables: those with the most bytes.
BUSIEST = 20


@dataclass(frozen=True)
class Pattern:
    """How a node is written to, in the seconds that the trace has of it."""

    #: Its name; `all` of all nodes together.
    node: str
    #: Seconds known, bytes in them, and their mean and highest rate, bytes per second.
    known_s: int
    bytes_b: float
    mean_b_s: float
    peak_b_s: float
    #: Share of the known seconds with more than `above_b_s`.
    duty: float
    #: Bursts (seconds above it, one after the other) and pauses that are known from begin to end;
    #: median, 95 % quantile and largest length in seconds, null without any.
    bursts: int
    burst_median_s: float | None
    burst_95_s: float | None
    burst_most_s: float | None
    pause_median_s: float | None
    pause_95_s: float | None
    #: Mean rate in seconds above it, bytes per second; null without any.
    burst_mean_b_s: float | None


@dataclass(frozen=True)
class AtOnce:
    """Nodes written to in the same second, of the seconds that are known of all nodes."""

    known_s: int
    mean: float | None
    median: float | None
    quantile_95: float | None
    most: int | None


@dataclass(frozen=True)
class Traffic:
    """What a trace shows."""

    #: How the trace was made.
    trace: TraceHeader
    #: Begin of the first second and end of the last one, Unix time.
    start_s: int
    end_s: int
    #: A node is written to in seconds with more than this, bytes per second.
    above_b_s: float
    machine: Pattern
    at_once: AtOnce
    #: What Daly's interval gives for as many nodes if a write lasts as long as the median burst;
    #: null without bursts.
    daly: Writers | None
    #: The nodes, those with the most bytes first.
    nodes: list[Pattern]


def traffic(trace: Trace, above_b_s: float | None, node_mtti_s: float) -> Traffic:
    """What a trace shows, with the mean time to interrupt of a node for Daly's expectation.

    `above_b_s`: from when on a node is written to; None: `SHARE` of the highest rate.
    """
    if above_b_s is None:
        above_b_s = SHARE * float(np.max(trace.seconds["bytes"].to_numpy()))
    seconds = trace.seconds.sort("node", "time_s").with_columns(active=pl.col("bytes") > above_b_s)
    runs = _runs(seconds)
    nodes = [
        _pattern(str(node), part, runs.filter(pl.col("node") == node))
        for (node,), part in seconds.group_by("node", maintain_order=True)
    ]
    machine = _pattern("all", seconds, runs)
    burst_s = machine.burst_median_s
    times_s = seconds["time_s"].to_numpy()
    return Traffic(
        trace=trace.header,
        start_s=int(np.min(times_s)),
        end_s=int(np.max(times_s)) + 1,
        above_b_s=above_b_s,
        machine=machine,
        at_once=_at_once(seconds),
        daly=concurrent_writers(len(nodes), node_mtti_s, burst_s) if burst_s else None,
        nodes=sorted(nodes, key=lambda node: -node.bytes_b),
    )


def _runs(seconds: pl.DataFrame) -> pl.DataFrame:
    """Bursts and pauses: seconds that follow each other, all above the threshold or none.

    They are `whole` if the second before and the second after are known.
    """
    node, active, follows = (pl.col(name) for name in ("node", "active", "follows"))
    same = (node == node.shift()) & (pl.col("time_s").diff() == 1)
    runs = (
        seconds.with_columns(follows=same.fill_null(False))
        .with_columns(run=(~follows | (active != active.shift())).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(pl.col("node", "active", "follows").first(), pl.len().alias("length_s"))
    )
    return runs.with_columns(whole=follows & follows.shift(-1).fill_null(False))


def _pattern(node: str, seconds: pl.DataFrame, runs: pl.DataFrame) -> Pattern:
    bytes_b = seconds["bytes"].to_numpy()
    written_b = bytes_b[seconds["active"].to_numpy()]
    bursts_s, pauses_s = _lengths_s(runs, active=True), _lengths_s(runs, active=False)
    return Pattern(
        node=node,
        known_s=len(bytes_b),
        bytes_b=float(np.sum(bytes_b)),
        mean_b_s=float(np.mean(bytes_b)),
        peak_b_s=float(np.max(bytes_b)),
        duty=len(written_b) / len(bytes_b),
        bursts=len(bursts_s),
        burst_median_s=_quantile(bursts_s, 0.5),
        burst_95_s=_quantile(bursts_s, 0.95),
        burst_most_s=_quantile(bursts_s, 1.0),
        pause_median_s=_quantile(pauses_s, 0.5),
        pause_95_s=_quantile(pauses_s, 0.95),
        burst_mean_b_s=float(np.mean(written_b)) if len(written_b) else None,
    )


def _lengths_s(runs: pl.DataFrame, *, active: bool) -> NDArray[Any]:
    """Sorted lengths of the whole bursts, or of the whole pauses."""
    chosen = runs.filter(pl.col("whole") & (pl.col("active") == active))
    return np.sort(chosen["length_s"].to_numpy())


def _quantile(values: NDArray[Any], share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None


def _at_once(seconds: pl.DataFrame) -> AtOnce:
    nodes = seconds["node"].n_unique()
    of_second = seconds.group_by("time_s").agg(pl.col("active").sum(), pl.len().alias("nodes"))
    counts = of_second.filter(nodes=nodes)["active"].to_numpy()
    if not len(counts):
        return AtOnce(0, None, None, None, None)
    median, high = map(float, np.quantile(counts, [0.5, 0.95]))
    return AtOnce(len(counts), float(np.mean(counts)), median, high, int(np.max(counts)))
