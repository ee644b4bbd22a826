"""One remedy under one traffic: price, gain, and what both come to for the application."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from analysis.effects.estimate import Result, by_level
from analysis.effects.verdict import emulations
from analysis.remedies.throttling import RATE
from analysis.report.data import RunData
from analysis.samples.pairs import of_treatment
from analysis.statistics.aligned_ranks import (
    FEWEST_BLOCKS,
    against_zero,
    few,
    next_allocation,
    slowdown,
)
from analysis.statistics.interval import FEWEST, Estimate, Interval
from analysis.statistics.location import Crossing, Values, crossing, location, p_value
from analysis.statistics.nights import NightsDifference, ratio_of_nights
from records.arms import BASELINE, arm_of, level_text, name_of, parts_of
from records.groups import grouped
from records.notes import Note
from records.sample import Level

#: Factor -> what the remedy is, in words. Other factors of the application, such as a tool, are no
#: remedies, whatever they cost.
REMEDIES: dict[str, str] = {
    "reserved_cores": "cores left free by the application",
    "core_spec": "cores set aside by Slurm",
    "buffer": "NUMA node of the buffers",
    "workers": "NUMA node of the application",
    "comm_node": "NUMA node of the writers' buffers",
    "writer_rail": "network devices of the writers",
    "mpi_rail": "network devices of the application's MPI",
    "environment": "a variable of the application's environment",
    "rate": "throttled writers",
}


class Speeds(NamedTuple):
    """Speeds of the application, in arbitrary units: columns without and with traffic.

    One row per pair, the same pairs in both; of levels in different jobs, one row per allocation.
    """

    without: Values
    with_remedy: Values
    #: Block and pair of each row; empty for levels in different jobs.
    keys: list[tuple[int, int]]


@dataclass(frozen=True)
class RemedyEffect:
    """One remedy of one case under one traffic."""

    case: str
    #: Case of the reference level; another one if each level ran in jobs of its own.
    reference_case: str
    workload: str
    #: The treatments that write, without the remedy and with it.
    traffic: str
    treatment: str
    factor: str
    level: Level
    #: Level that it is compared with.
    reference: Level
    #: Levels of the application's other factors that are not the first ones.
    at: dict[str, Level]
    #: Time off with the remedy / off; above 1 it costs. None below six pairs, or two allocations a
    #: side, and for a level of the writers, which does nothing where nothing is written.
    price: Estimate | None
    #: Time on / time on with the remedy; above 1 it helps.
    gain: Estimate | None
    #: The writers' rate without the remedy, and their rate with it / without it.
    rate_b_s: float | None
    written: Estimate | None
    #: Pairs that hold all four runs; allocations of the side with fewer, if not paired.
    pairs: int
    #: Whether the level changed between two runs of a pair. If not, levels ran in different jobs.
    paired: bool
    #: Why the figures say nothing of an RDMA network card: emulated writes, origin on the host.
    emulated: list[str]
    speeds: Speeds

    @property
    def remedy(self) -> str:
        """The level by name: `reserved_cores=1`."""
        return f"{self.factor}={level_text(self.level)}"

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON holds it, without its single pairs."""
        found = asdict(self)
        del found["speeds"]
        return found | {"remedy": self.remedy, "what": REMEDIES[self.factor]}


@dataclass(frozen=True)
class Net:
    """The application's speed with a remedy / without it; above 1 the remedy is worth its price.

    A remedy may help on some nodes and not on others, so what the pairs of a few allocations show
    need not hold in the next one.
    """

    #: Of the allocations measured.
    ratio: Estimate
    #: Two-sided p value of 'no difference' in them.
    p: float
    #: Allocations measured; of the side with fewer, if not paired.
    allocations: int
    #: Interval that covers the next allocation; None below three.
    next_allocation: Interval | None

    @property
    def lasts(self) -> bool:
        """Whether the next allocation is shown to be on the same side of 1 as those measured."""
        low, high = self.next_allocation or (0.0, np.inf)
        return low > 1 if self.ratio.value > 1 else high < 1


def net(effect: RemedyEffect, share: float) -> Net | None:
    """The net benefit with traffic during `share` of the time; None with too few pairs.

    At a share of 1 it is the gain, at 0 it is 1 / price. The mean speed of a month is that of its
    parts by their time.
    """
    without = mean_speed(effect.speeds.without, share)
    with_remedy = mean_speed(effect.speeds.with_remedy, share)
    if effect.paired:
        return compared(np.log(with_remedy / without), effect.speeds.keys)
    found = _of_nights(with_remedy, without)
    if found is None:
        return None
    allocations = min(len(with_remedy), len(without))
    # From one speed an allocation: their scatter is in the interval of the ratio already.
    ends = Interval.of(found.ratio) if allocations >= FEWEST_BLOCKS else None
    return Net(found.ratio, found.p, allocations, ends)


def break_even(effect: RemedyEffect) -> Crossing:
    """Share of time with traffic from which on the remedy is worth its price, for pairs."""
    if not effect.paired or effect.pairs < FEWEST or effect.price is None:
        return Crossing(None, None, None)
    without, with_remedy = few(effect.speeds.without), few(effect.speeds.with_remedy)
    return crossing(
        lambda share: np.log(mean_speed(with_remedy, share) / mean_speed(without, share)), 0.0, 1.0
    )


def exponential(logs: Estimate | None) -> Estimate | None:
    """An estimate of logarithms as one of ratios."""
    return logs.mapped(lambda each: float(np.exp(each))) if logs else None


def mean_speed(speeds: Values, share: float | Values) -> Values:
    """Mean speed over time, with traffic during `share` of it."""
    return np.asarray((1 - share) * speeds[:, 0] + share * speeds[:, 1])


def compared(logs: Values, keys: Sequence[tuple[int, int]]) -> Net | None:
    """The ratio whose logarithm scatters as `logs`, one per block and pair; None below six."""
    ratio = exponential(location(logs))
    if ratio is None:
        return None
    blocks = np.array([block for block, _ in keys])
    own = [against_zero(logs[blocks == block]) for block in np.unique(blocks)]
    return Net(ratio, p_value(logs), len(own), next_allocation(own))


# Price and gain of each remedy that a run tried, from its pairs: figures 6b and 6c.
#
# Levels of the application, such as reserved cores, have a baseline of their own and so a price.
# Levels of the writers, such as a throttled rate, share the baseline: their price is what they make
# the writes slower by.


_TOOL = "tool"


def remedy_effects(run: RunData) -> list[RemedyEffect]:
    """The remedies of a run: the application's, the writers', and those in jobs of their own."""
    found = [*_of_application(run), *_of_writers(run), *_between_jobs(run)]
    emulated = emulated_cases(run.samples) if found else {}
    both = (dict.fromkeys(emulated[row.reference_case] + emulated[row.case]) for row in found)
    return [replace(row, emulated=list(why)) for row, why in zip(found, both, strict=True)]


def _of_application(run: RunData) -> list[RemedyEffect]:
    prices = {
        (row.case, row.treatment, row.against): row for row in run.contrasts if row.kind == "price"
    }
    rows = {(row.case, row.arm): row for row in run.results}
    found = []
    for gain in run.contrasts:
        # Runs wrapped by a tool are for its counts.
        if gain.kind != "gain" or gain.factor not in REMEDIES or _TOOL in gain.at:
            continue
        without, with_ = (rows[gain.case, name] for name in (gain.against, gain.treatment))
        price = prices.get((gain.case, with_.baseline, without.baseline))
        if price is not None:
            figures = price.ratio, gain.ratio
            found.append(_paired(run, without, with_, gain.factor, gain.at, figures))
    return found


def _of_writers(run: RunData) -> list[RemedyEffect]:
    """Each level of a factor of the writes against the first one, of rates the highest.

    Only with the application as in the plain baseline.
    """
    plain = [
        row
        for row in run.results
        if not parts_of(row.baseline)[1] and arm_of(row.arm).writing == "continuous"
    ]
    alike = [(factor, rows) for factor in REMEDIES for rows in by_level(plain, factor).values()]
    found = []
    for factor, rows in sorted(alike, key=lambda each: plain.index(each[1][0])):
        first = _first(rows, factor)
        others = (row for row in rows if row.factors[factor] != first.factors[factor])
        found += [_paired(run, first, row, factor, {}) for row in others]
    return found


def _first(rows: Sequence[Result], factor: str) -> Result:
    """What a level is compared with: the highest rate, or the level that names leave out."""
    if factor == RATE:
        return max(rows, key=lambda row: row.writer_rate_b_s or 0.0)
    return min(rows, key=lambda row: factor in parts_of(row.arm)[1])


def _paired(
    run: RunData,
    without: Result,
    with_: Result,
    factor: str,
    at: dict[str, Level],
    figures: tuple[Estimate | None, Estimate | None] | None = None,
) -> RemedyEffect:
    """`figures`: price and gain, if known already."""
    columns = ["block", "pair", "off", "on", "writer_rate_b_s"]
    one, other = (
        of_treatment(run.pairs, row.case, row.arm).select(columns) for row in (without, with_)
    )
    # The pairs that hold both treatments and their baselines.
    both = one.join(other, on=columns[:2], suffix="_with", maintain_order="left")
    foms = both.select("off", "on", "off_with", "on_with").to_numpy().astype(float)
    speeds = foms if without.better == "higher" else 1 / foms
    rates = both.select("writer_rate_b_s", "writer_rate_b_s_with").to_numpy().astype(float)
    price, gain = figures or (None, _ratio(speeds[:, 3] / speeds[:, 1]))
    return _of_levels(
        *(without, with_, factor, with_.factors[factor], without.factors[factor]),
        at=at,
        price=price,
        gain=gain,
        written=_ratio(rates[:, 1] / rates[:, 0]),
        pairs=both.height,
        paired=True,
        speeds=Speeds(speeds[:, :2], speeds[:, 2:], both.select("block", "pair").rows()),
    )


def _of_levels(
    without: Result, with_: Result, factor: str, level: Level, reference: Level, **figures: Any
) -> RemedyEffect:
    """What two levels are, whether their runs are paired or not; `figures`: the other fields."""
    return RemedyEffect(
        case=with_.case,
        reference_case=without.case,
        workload=without.workload,
        traffic=without.arm,
        treatment=with_.arm,
        factor=factor,
        level=level,
        reference=reference,
        rate_b_s=without.writer_rate_b_s,
        emulated=[],
        **figures,
    )


def _ratio(ratios: Values) -> Estimate | None:
    known = np.isfinite(ratios).all()
    return slowdown(against_zero(np.log(ratios))) if known else None


def emulated_cases(samples: pl.DataFrame) -> dict[str, list[str]]:
    """Case -> why its figures say nothing of an RDMA network card; empty if they do."""
    kinds = samples.lazy().select("case", "transport", "same_host").unique().group_by("case")
    of_case = kinds.agg("transport", pl.col("same_host").any()).collect()
    return {
        str(case): emulations(sorted(set(names))) or ([Note.SAME_HOST()] if same_host else [])
        for case, names, same_host in of_case.iter_rows()
    }


# Remedies whose levels need jobs of their own, such as `--core-spec`: cases of their own.
#
# Jobs differ in their nodes and their hour, so the allocation is the unit: one median per
# allocation and treatment, two allocations a side at least, and the comparison is that of nights
# (`analysis.statistics.nights`).


def _between_jobs(run: RunData) -> list[RemedyEffect]:
    """Remedies among the levels that made separate cases, each against the level measured first."""
    effects = [row for row in run.results if row.role == "effect" and row.baseline == BASELINE]
    cases = list(dict.fromkeys(row.case for row in effects))
    found = []
    for factor in REMEDIES:
        named = ((case, *parts_of(case)) for case in cases)
        groups = grouped(
            (name_of(name, levels), (case, level))
            for case, name, levels in named
            if (level := levels.pop(factor, None)) is not None
        )
        for (first, reference), *others in groups.values():
            for case, level in others:
                rows = {row.arm: row for row in effects if row.case == case}
                found += [
                    _unpaired(run, row, rows[row.arm], factor, level, reference)
                    for row in effects
                    if row.case == first and row.arm in rows
                ]
    return found


def _unpaired(
    run: RunData, without: Result, with_: Result, factor: str, level: Level, reference: Level
) -> RemedyEffect:
    one, other = _speeds(run, without), _speeds(run, with_)
    price, gain = _of_nights(one[:, 0], other[:, 0]), _of_nights(other[:, 1], one[:, 1])
    return _of_levels(
        *(without, with_, factor, level, reference),
        at={},
        price=price.ratio if price else None,
        gain=gain.ratio if gain else None,
        written=None,
        pairs=min(len(one), len(other)),
        paired=False,
        speeds=Speeds(one, other, []),
    )


def _speeds(run: RunData, row: Result) -> Values:
    """Median speeds without and with traffic of each allocation that has both."""
    blocks = of_treatment(run.pairs, row.case, row.arm).group_by("block", maintain_order=True)
    medians = blocks.agg(pl.col("off", "on").median())
    foms = medians.select("off", "on").to_numpy().astype(float)
    return foms if row.better == "higher" else 1 / foms


def _of_nights(x: Values, y: Values) -> NightsDifference | None:
    """The ratio of speeds x / y, one an allocation; None below two on a side."""
    return ratio_of_nights(list(x), list(y)) if min(len(x), len(y)) > 1 else None
