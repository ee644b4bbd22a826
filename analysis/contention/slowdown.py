"""The slowdown of an application under writers, predicted from its demand and a machine's model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import polars as pl

from analysis.contention.evaluate import COVERAGE
from analysis.contention.parameters import Bands, Model
from analysis.contention.predict import predict
from analysis.counts.counters import role_values
from analysis.effects.estimate import Result
from analysis.report.data import RunData
from analysis.samples.pairs import of_treatment
from analysis.statistics.interval import CONFIDENCE, Estimate, effect, median_interval
from analysis.subjects.regimes import WORKLOAD
from nimc.base import units
from nimc.base.errors import InputError
from nimc.base.units import plural
from nimc.records.arms import BASELINE, parts_of

# How much of an application's time needs memory bandwidth: its share.
#
# The share is the application's demand, relative to what membench takes on as many cores. In that
# part of its time it suffers as membench does, in the rest not at all. It comes from counters of
# memory traffic where a tool counted (bytes per second / rate of membench alone). Else from runs
# beside membench on other cores (the factor `tool`, levels `membench:N`): its slowdown there less
# 1, divided by that of membench in the same run.


_BESIDE = f"{WORKLOAD}:"
_TRAFFIC = ("DRAM read", "DRAM written")
#: Share of membench itself, the measure of the others.
_ALL = Estimate(1.0, 1.0, 1.0, CONFIDENCE)


@dataclass(frozen=True)
class MemoryDemand:
    """The demand of one case."""

    source: Literal["counters", "membench beside it", "the measure itself"]
    #: Share of the time that needs memory bandwidth. Above 1, it suffers more than membench.
    share: Estimate
    #: Memory traffic of a node, bytes per second; None if no tool counted it.
    rate_b_s: Estimate | None = None


def demands(run: RunData, alone_b_s: float) -> dict[str, MemoryDemand | str]:
    """Case -> its demand, or why it is not known.

    `alone_b_s`: rate of membench alone on as many cores, above 0.
    """
    counted = _counted(run)
    beside = _beside(run)
    found: dict[str, MemoryDemand | str] = {}
    for case, workload in {row.case: row.workload for row in run.results}.items():
        if workload == WORKLOAD:
            found[case] = MemoryDemand("the measure itself", _ALL)
        elif rate := counted.get(case):
            share = rate.mapped(lambda each: each / alone_b_s)
            found[case] = MemoryDemand("counters", share, rate)
        else:
            found[case] = _from_neighbours(case, beside, run)
    return found


def _counted(run: RunData) -> Mapping[str, Estimate]:
    """Case -> traffic of a node in runs of the baseline, bytes per second, where it was counted."""
    values = role_values(run.counters).filter(
        pl.col("role").is_in(_TRAFFIC) & (pl.col("treatment") == BASELINE)
    )
    runs = run.samples.select("key", "elapsed_s")
    sums = (
        values.join(runs, on="key", how="inner")
        .group_by("case", "key", "rank", maintain_order=True)
        .agg(pl.col("value").sum() / pl.col("elapsed_s").first(), roles=pl.col("value").count())
        # A sum of one role, or of a role without a value, is not the traffic.
        .filter((pl.col("roles") == len(_TRAFFIC)) & pl.col("value").is_finite())
    )
    rates = {
        str(case): median_interval(group["value"].to_list())
        for (case,), group in sums.group_by("case", maintain_order=True)
    }
    return {case: rate for case, rate in rates.items() if rate is not None and rate.low > 0}


def _beside(run: RunData) -> dict[str, dict[int, Estimate]]:
    """Case -> its slowdown beside membench, for each number of cores of membench."""
    found: dict[str, dict[int, Estimate]] = {}
    for each in run.contrasts:
        plain = (each.kind, each.factor, each.at) == ("price", "tool", {})
        slower = each.ratio
        beside = re.fullmatch(rf"{_BESIDE}([0-9]{{1,4}})", str(each.level))
        if plain and slower and beside:
            found.setdefault(each.case, {})[int(beside[1])] = slower
    return found


def _from_neighbours(
    case: str, beside: Mapping[str, Mapping[int, Estimate]], run: RunData
) -> MemoryDemand | str:
    measures: dict[int, Estimate] = {}
    for row in run.results:
        if row.workload == WORKLOAD:
            measures |= beside.get(row.case, {})
    own = {cores: each for cores, each in beside.get(case, {}).items() if cores in measures}
    if not own:
        return "neither counters of memory traffic nor six pairs beside membench"
    most = max(own)  # the most neighbours have the clearest effect
    share = share_of(own[most], measures[most])
    if share is None:
        return (
            f"membench itself is not shown to be slower beside membench on {plural(most, 'core')}"
        )
    return MemoryDemand("membench beside it", share)


def share_of(own: Estimate, membench: Estimate) -> Estimate | None:
    """(own - 1) / (membench - 1), from the ends of both intervals; not below 0.

    None if membench is not shown to be slower beside itself.
    """
    if membench.low <= 1:
        return None
    value = (own.value - 1) / (membench.value - 1)
    low = (own.low - 1) / (membench.high - 1)
    high = (own.high - 1) / (membench.low - 1)
    return Estimate(max(0.0, value), max(0.0, low), max(0.0, high), CONFIDENCE)


@dataclass(frozen=True)
class ComputingPlace:
    """Where an application computes: cores, and the NUMA nodes of its data and of the buffers."""

    cores: int
    comp_node: int = 0
    comm_node: int = 0


@dataclass(frozen=True)
class SlowdownRow:
    """One case of a run: what is predicted, and what was measured."""

    run: str
    case: str
    workload: str
    #: From its `MemoryDemand`; None if that is not known.
    source: str | None
    demand_b_s: Estimate | None
    share: Estimate | None
    predicted: Estimate | None
    measured: Estimate | None
    #: Predicted / measured - 1; None without both, and for membench, to which a model is fitted.
    error: float | None
    #: Standard deviation of the logarithm of the ratio of two baseline runs; None below two.
    spread: float | None
    #: Why nothing is predicted; empty otherwise.
    reason: str


def slowdown_of(share: Estimate, membench: Estimate) -> Estimate:
    """1 + share (membench - 1): the slowdown of the share of the time that needs bandwidth.

    `membench` is the slowdown of membench under the same writers. The interval follows from the
    ends of both, and its confidence from that both hold. A time ratio is not below 0.
    """

    def slowdown(share: float, membench: float) -> float:
        return max(0.0, 1 + share * (membench - 1))

    ends = [
        slowdown(*each) for each in product((share.low, share.high), (membench.low, membench.high))
    ]
    middle = slowdown(share.value, membench.value)
    return Estimate(middle, min(ends), max(ends), share.confidence + membench.confidence - 1)


def of_membench(alone_b_s: float, together_b_s: float, bands: Bands | None) -> Estimate | None:
    """The slowdown of membench by the predicted rates, each anywhere in its band.

    Without a band a rate is taken as exact. None if a band reaches down to a rate of 0 with
    writers, so that the slowdown has no upper end.
    """
    both = (bands.comp_alone, bands.comp_par) if bands else (None, None)
    alone, together = (band.width if band else 0.0 for band in both)
    if together >= 1:
        return None
    value = alone_b_s / together_b_s
    return Estimate(
        value,
        value * max(0.0, 1 - alone) / (1 + together),
        value * (1 + alone) / (1 - together),
        1 - (1 - COVERAGE) * sum(band is not None for band in both),
    )


def rows(runs: Iterable[RunData], model: Model, place: ComputingPlace) -> list[SlowdownRow]:
    """Predicted and measured slowdown of every case of `runs`.

    The model's error bands widen the interval, if it has any. Raises InputError if the model
    cannot predict the place, or its bands leave the slowdown of membench open.
    """
    if not 1 <= place.cores <= model.cores:
        raise InputError(f"--cores {place.cores}: allowed: 1 to {model.cores} ({model.name})")
    predicted = predict(model, place.comp_node, place.comm_node)
    alone, together = (
        float(rates[place.cores - 1])
        for rates in (predicted.comp_alone_b_s, predicted.comp_par_b_s)
    )
    if not (alone > 0 and together > 0):
        raise InputError(
            f"{model.name}: nothing is predicted for {units.plural(place.cores, 'core')} with data"
            f" on node {place.comp_node} and buffers on {place.comm_node}"
        )
    membench = of_membench(alone, together, model.bands_at(place.comp_node, place.comm_node))
    if membench is None:
        raise InputError(
            f"{model.name}: error band of computations with communications: must be below 100 % to"
            " predict a slowdown"
        )
    return [row for run in runs for row in _of_run(run, alone, membench)]


def _of_run(run: RunData, alone_b_s: float, membench: Estimate) -> list[SlowdownRow]:
    effects = {row.case: row.slowdown for row in run.results if _is_plain(row)}
    workloads = {row.case: row.workload for row in run.results}
    found = []
    for case, demand in demands(run, alone_b_s).items():
        known = None if isinstance(demand, str) else demand
        predicted = slowdown_of(known.share, membench) if known else None
        measured = effects.get(case)
        error = None
        if predicted and measured and workloads[case] != WORKLOAD:
            error = predicted.value / measured.value - 1
        found.append(
            SlowdownRow(
                run=run.header.run,
                case=case,
                workload=workloads[case],
                source=known.source if known else None,
                demand_b_s=known.rate_b_s if known else None,
                share=known.share if known else None,
                predicted=predicted,
                measured=measured,
                error=error,
                spread=_spread(run.pairs, case),
                reason=demand if isinstance(demand, str) else "",
            )
        )
    return found


def _is_plain(row: Result) -> bool:
    """Whether it is the effect of writes at full rate, all other levels the first."""
    return (
        row.role == "effect"
        and row.direction in (None, "write")
        and row.at_full_rate
        and parts_of(row.arm)[1].keys() <= {"rate"}
    )


def _spread(pairs: pl.DataFrame, case: str) -> float | None:
    own = of_treatment(pairs, case, "aa")
    return float(np.log(own["ratio"].to_numpy()).std(ddof=1)) if own.height > 1 else None


def notes(runs: Iterable[RunData], model: Model) -> list[str]:
    """Caveats of the model and of the transports of the runs, each once."""
    emulated = (text for run in runs for text in run.emulated())
    return list(dict.fromkeys([*model.notes, *emulated]))


def mean_error(found: Sequence[SlowdownRow]) -> float | None:
    """Mean of the errors' absolute values; None without one."""
    errors = [abs(row.error) for row in found if row.error is not None]
    return math.fsum(errors) / len(errors) if errors else None


def table(found: Sequence[SlowdownRow]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the table that people read."""
    header = ["case", "share of the time", "traffic", "from", "predicted", "measured", "error"]
    return header, [
        [
            row.case,
            _text(row.share),
            "-" if row.demand_b_s is None else units.quantity(row.demand_b_s.value, "B/s", 3),
            row.source or "-",
            _text(row.predicted),
            _text(row.measured),
            "-" if row.error is None else f"{row.error:+.1%}",
        ]
        for row in found
    ]


def _text(of: Estimate | None) -> str:
    return " ".join(effect(of)) if of else "-"
