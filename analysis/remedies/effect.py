"""One remedy under one traffic: price, gain, and what both come to for the application."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from analysis.statistics.interval import FEWEST, Estimate
from analysis.statistics.location import Crossing, Values, crossing, few, location, p_value
from analysis.statistics.nights import ratio_of_nights
from nimc.records.sample import Level

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
        level = str(self.level).lower() if isinstance(self.level, bool) else self.level
        return f"{self.factor}={level}"

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON holds it, without its single pairs."""
        found = asdict(self)
        del found["speeds"]
        return found | {"remedy": self.remedy, "what": REMEDIES[self.factor]}


@dataclass(frozen=True)
class Net:
    """The application's speed with a remedy / without it; above 1 the remedy is worth its price."""

    ratio: Estimate
    #: Two-sided p value of 'no difference'.
    p: float


def net(effect: RemedyEffect, share: float) -> Net | None:
    """The net benefit with traffic during `share` of the time; None with too few pairs.

    At a share of 1 it is the gain, at 0 it is 1 / price. The mean speed of a month is that of its
    parts by their time.
    """
    without = mean_speed(effect.speeds.without, share)
    with_remedy = mean_speed(effect.speeds.with_remedy, share)
    if not effect.paired:
        if min(len(without), len(with_remedy)) < 2:
            return None
        found = ratio_of_nights(list(with_remedy), list(without))
        return Net(found.ratio, found.p) if found else None
    return compared(np.log(with_remedy / without))


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
    if logs is None:
        return None
    low, value, high = (float(np.exp(each)) for each in (logs.low, logs.value, logs.high))
    return Estimate(value, low, high, logs.confidence)


def mean_speed(speeds: Values, share: float | Values) -> Values:
    """Mean speed over time, with traffic during `share` of it."""
    return np.asarray((1 - share) * speeds[:, 0] + share * speeds[:, 1])


def compared(logs: Values) -> Net | None:
    """The ratio whose logarithm scatters as `logs`, one per pair; None below six."""
    ratio = exponential(location(logs))
    return Net(ratio, p_value(logs)) if ratio else None
