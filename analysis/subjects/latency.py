"""Latency of memory against traffic, and the bandwidth that it leaves a core.

A core has a limited number of cache lines in flight, its credits: its throughput is at most
credits x 64 B / latency (Vuppalapati et al., Understanding the Host Network, SIGCOMM 2024). When
writers raise the latency, cores lose bandwidth long before memory is full.

Credits are measured, by Little's law: rate x latency / 64 B of a loading core where the fewest load
and nothing is written. This assumes that the loading cores' lines wait as long as those of the core
that measures the latency, and it counts lines that prefetchers fetch. Elsewhere, the bound follows
from the latency there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from math import nan
from statistics import median
from typing import Any, Literal

import polars as pl
from markupsafe import Markup

from analysis.effects.estimate import Result
from analysis.report.data import RunData
from analysis.report.plots import View, drawing, finish, legend, level_line, themed_svg
from analysis.report.sections import Section, json_rows
from analysis.samples.pairs import counted, extra, level, levels
from analysis.statistics.interval import Estimate, median_interval
from analysis.statistics.location import ratio_between
from nimc.base.groups import grouped
from nimc.base.units import plural
from nimc.records.arms import Role, parts_of
from nimc.records.sample import Level

WORKLOAD = "latency"
THREADS, RATE = "load_threads", "rate"
_NAMES = ("case", "arm", "role", "factors")
LINE_B = 64
#: No node has more cores.
MOST_THREADS = 4096
#: At the bound: the whole interval of measured / modelled is this close to 1.
CLOSE = 0.1

#: How the measured rate of the loading cores compares with the bound, by the whole interval.
Against = Literal["at the bound", "below the bound", "above the bound", "inconclusive"]


@dataclass(frozen=True)
class LatencyBound:
    """What the latency of a point leaves its loading cores."""

    #: credits x 64 B / latency x cores, with the credits of the reference; median, in B/s.
    modelled_b_s: float
    #: Measured rate / modelled; None below six runs of either.
    ratio: Estimate | None
    against: Against


@dataclass(frozen=True)
class LatencyPoint:
    """All runs that count of one treatment; estimates are None below six runs."""

    case: str
    arm: str
    role: Role
    #: Cores that load memory, their median rate in bytes per second, and their number of lines in
    #: flight (each core's), by Little's law; None without such cores.
    load_threads: int
    load_b_s: float | None
    lines: Estimate | None
    median_lines: float | None
    #: Requested rate of the writers (0: none), and the median rate that they reached.
    rate: Level
    writer_b_s: float
    latency: Estimate | None
    median_s: float
    #: Latency in the fastest iteration of all runs.
    least_s: float
    runs: int
    #: Time of a load relative to the baseline at the same number of cores, from pairs.
    slowdown: Estimate | None
    #: None without loading cores, and for the reference itself.
    bound: LatencyBound | None = None
    reference: bool = False

    @property
    def traffic_b_s(self) -> float:
        """Bytes per second that loading cores and writers move together."""
        return (self.load_b_s or 0.0) + self.writer_b_s

    @property
    def writers(self) -> str:
        """What the writers do, in words."""
        if self.role == "baseline":
            return "no writers"
        arm = parts_of(self.arm)[0]
        return "control" if self.role == "control" else f"{arm}, {self.rate}"

    def as_dict(self) -> dict[str, Any]:
        """The point as JSON holds it."""
        return asdict(self) | {"traffic_b_s": self.traffic_b_s}


def points(samples: pl.DataFrame, results: Sequence[Result]) -> list[LatencyPoint]:
    """The points of a run by case, writers and loading cores, from its judged samples."""
    slowdowns = {(row.case, row.arm): row.slowdown for row in results}
    found = [
        (_point(runs, slowdowns.get((str(case), str(arm)))), runs["lines"].to_list())
        for (case, arm, *_), runs in _runs(samples).group_by(_NAMES, maintain_order=True)
    ]
    rates_b_s = grouped(((point.role, point.rate), point.writer_b_s) for point, _ in found)

    def place(each: tuple[LatencyPoint, list[float]]) -> tuple[str, int, str, float, int]:
        """By case; without writers, the control, writers by rate; then by loading cores."""
        point = each[0]
        order = {"baseline": 0, "control": 1}.get(point.role, 2)
        slowest = min(rates_b_s[point.role, point.rate])
        return point.case, order, parts_of(point.arm)[0], slowest, point.load_threads

    by_case = groupby(sorted(found, key=place), key=lambda pair: pair[0].case)
    return [point for _, case in by_case for point in _bounded(list(case))]


def _runs(samples: pl.DataFrame) -> pl.DataFrame:
    """The runs that count and have all figures, without repeated baselines.

    Columns: `_NAMES`, `threads`, `latency_s`, `least_s`, `load_b_s`, `writer_b_s`, `lines`: those
    in flight of one loading core.
    """
    own = samples.lazy().filter(pl.col("workload") == WORKLOAD, pl.col("role") != "floor")
    runs = counted(own, "role", "factors", "fom", "fom_extra", "writer_rate_b_s").select(
        pl.col(_NAMES).cast(pl.String),
        threads=level(THREADS).fill_null("0").cast(pl.Int64, strict=False),
        latency_s="fom",
        least_s=extra("least_s"),
        load_b_s=extra("load_b_s"),
        writer_b_s=pl.col("writer_rate_b_s").fill_null(0.0),
    )
    loads = pl.col("threads") > 0
    return runs.filter(
        pl.col("threads").is_between(0, MOST_THREADS),
        pl.col("least_s") > 0,
        pl.when(loads).then(pl.col("load_b_s") > 0).otherwise(pl.col("load_b_s") == 0),
    ).with_columns(lines=pl.col("load_b_s") * pl.col("latency_s") / LINE_B / pl.col("threads"))


def _point(runs: pl.DataFrame, slowdown: Estimate | None) -> LatencyPoint:
    first = runs.row(0, named=True)
    loads = first["threads"] > 0
    lines = runs["lines"].to_list() if loads else []
    latency_s = runs["latency_s"].to_list()
    return LatencyPoint(
        case=first["case"],
        arm=first["arm"],
        role=first["role"],
        load_threads=first["threads"],
        load_b_s=median(runs["load_b_s"]) if loads else None,
        lines=median_interval(lines),
        median_lines=median(lines) if lines else None,
        rate=levels(first["factors"]).get(RATE, "full") if first["role"] == "effect" else 0,
        writer_b_s=median(runs["writer_b_s"]),
        latency=median_interval(latency_s),
        median_s=median(latency_s),
        least_s=min(runs["least_s"]),
        runs=runs.height,
        slowdown=slowdown,
    )


def _bounded(found: Sequence[tuple[LatencyPoint, list[float]]]) -> list[LatencyPoint]:
    """The points of a case, each with the lines of its runs, with their bounds.

    Credits are those of the reference.
    """
    alone = [each for each in found if each[0].role == "baseline" and each[0].load_threads]
    if not alone:
        return [point for point, _ in found]
    base, credits_ = min(alone, key=lambda each: each[0].load_threads)

    def bounded(point: LatencyPoint, lines: list[float]) -> LatencyPoint:
        if point is base or not point.load_threads:
            return replace(point, reference=point is base)
        modelled_b_s = point.load_threads * median(credits_) * LINE_B / point.median_s
        # The ratio of rate to bound is that of the lines in flight here to the credits.
        ratio = ratio_between(lines, credits_)
        return replace(point, bound=LatencyBound(modelled_b_s, ratio, _against(ratio)))

    return [bounded(*each) for each in found]


def _against(ratio: Estimate | None) -> Against:
    if ratio is None:
        return "inconclusive"
    if ratio.low >= 1 - CLOSE and ratio.high <= 1 + CLOSE:
        return "at the bound"
    if ratio.high < 1:
        return "below the bound"
    return "above the bound" if ratio.low > 1 else "inconclusive"


def latency_view(run: RunData, name: str) -> View | None:
    """The latencies of a run; None if it has none."""
    found = points(run.samples, run.results)
    if not found:
        return None
    cases = grouped((point.case, point) for point in found)
    return View(
        cases=[
            View(
                name=case,
                svg=_plot(of_case, f"{name}{i}"),
                points=of_case,
                # Where the credits are measured; None if no core loaded memory without writers.
                reference=next((point for point in of_case if point.reference), None),
            )
            for i, (case, of_case) in enumerate(cases.items())
        ],
        emulated=run.emulated(cases),
        line_b=LINE_B,
        close=CLOSE,
    )


def _plot(found: Sequence[LatencyPoint], name: str) -> Markup:
    """One line per writers' rate, from no loading core to the most."""
    with drawing(3.6) as figure:
        axes = figure.subplots()
        for index, line in enumerate(dict.fromkeys(point.writers for point in found)):
            level_line(axes, index, line, [_place(each) for each in found if each.writers == line])
        traffic = "traffic of loading cores and writers, GB/s"
        finish(axes, traffic, "latency, ns", xlim=(0, None), ylim=(0, None))
        legend(figure, 3)
        values = "; ".join(
            f"{each.writers}, {plural(each.load_threads, 'core')}: {1e9 * each.median_s:.0f} ns"
            f" at {each.traffic_b_s / 1e9:.2f} GB/s"
            for each in found
        )
        return themed_svg(figure, name, f"Latency against traffic. {values}")


def _place(point: LatencyPoint) -> tuple[float, float, float, float]:
    """Traffic in GB/s; latency in ns with both ends."""
    low, high = (point.latency.low, point.latency.high) if point.latency else (nan, nan)
    return point.traffic_b_s / 1e9, 1e9 * point.median_s, 1e9 * low, 1e9 * high


_FILES = json_rows(
    "latency.json", "points", lambda run: points(run.samples, run.results), LatencyPoint.as_dict
)
SECTIONS = [Section("run", 50, "latency", latency_view, "Latency against traffic", _FILES)]
