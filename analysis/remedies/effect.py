"""One remedy under one traffic: price, gain, and what both come to for the application."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from analysis.statistics.aligned_ranks import FEWEST_BLOCKS, against_zero, few, next_allocation
from analysis.statistics.interval import FEWEST, Estimate, Interval
from analysis.statistics.location import Crossing, Values, crossing, location, p_value
from analysis.statistics.nights import NightsDifference, ratio_of_nights
from records.arms import level_text
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
    found = of_nights(with_remedy, without)
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


def of_nights(x: Values, y: Values) -> NightsDifference | None:
    """The ratio of speeds x / y, one an allocation; None below two on a side."""
    return ratio_of_nights(list(x), list(y)) if min(len(x), len(y)) > 1 else None
