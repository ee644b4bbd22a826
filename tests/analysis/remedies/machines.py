"""Six made machines and the truth about their remedies. Nothing here was measured."""

from dataclasses import dataclass

import numpy as np

from analysis.remedies.effect import RemedyEffect, Speeds
from analysis.statistics.interval import Estimate


@dataclass(frozen=True)
class Remedy:
    """True price and true gain, and the writers' rate with it / without."""

    name: str
    price: float
    gain: float
    written: float = 1.0


@dataclass(frozen=True)
class MadeMachine:
    """True slowdown, noise of a run, share of time with traffic, and remedies."""

    name: str
    slowdown: float
    noise: float
    share: float
    remedies: tuple[Remedy, ...]
    #: Factors of the remedies that are truly worth their price, the best first.
    worth: tuple[str, ...] = ()
    #: Whether it is so far from any doubt that it must be found.
    clear: bool = False


CORE, PLACE, RAILS = "reserved_cores", "buffer", "mpi_rail"
MACHINES = (
    # An onload card: a core takes 2.0 to 1.21 / 1.1, as in figure 6c of Groves, Grant and
    # Arnold (2016).
    MadeMachine("core", 2.0, 0.01, 1.0, (Remedy(CORE, 1.1, 1.8), Remedy(PLACE, 1.02, 1.0)), (CORE,),
                clear=True),
    # An offload card: nothing is lost, so that each remedy only costs.
    MadeMachine("offload", 1.0, 0.01, 0.5, (Remedy(CORE, 1.06, 0.94), Remedy(PLACE, 1.0, 1.0))),
    # Placement is free and better than a core that helps as well.
    MadeMachine("placement", 1.4, 0.01, 1.0, (Remedy(CORE, 1.07, 1.1), Remedy(PLACE, 1.0, 1.3)),
                (PLACE, CORE), clear=True),
    # A core helps under traffic, which is there too seldom: 0.95 x 0.1 lost, 0.05 x 0.1 won.
    MadeMachine("seldom", 1.3, 0.01, 0.05, (Remedy(CORE, 1.1, 1.15),)),
    # Three remedies that do nothing at all.
    MadeMachine("nothing", 1.2, 0.02, 1.0,
                (Remedy(CORE, 1.0, 1.0), Remedy(PLACE, 1.0, 1.0), Remedy(RAILS, 1.0, 1.0))),
    # Noise that hides a small benefit; and a throttled rate, which only delays the writes.
    MadeMachine("noisy", 1.1, 0.08, 1.0, (Remedy(CORE, 1.0, 1.01), Remedy("rate", 1.0, 1.08, 0.25)),
                (CORE,)),
)  # fmt: skip


def effects(made: MadeMachine, pairs: int, seed: int, allocations: int = 3) -> list[RemedyEffect]:
    """What `pairs` pairs of all treatments give, with speeds that scatter around the truth.

    As many pairs, but for one, in each of the allocations, which do not differ.
    """
    rng = np.random.default_rng([seed, sum(map(ord, made.name))])
    shared = rng.normal(0, 3 * made.noise, pairs)

    def speed(time: float) -> np.ndarray:
        return np.exp(shared + rng.normal(0, made.noise, pairs)) / time

    without = np.column_stack([speed(1.0), speed(made.slowdown)])
    keys = [(pair % allocations, pair) for pair in range(pairs)]
    return [
        RemedyEffect(
            case="melt",
            reference_case="melt",
            workload="melt",
            traffic="on",
            treatment=f"on@{each.name}=1",
            factor=each.name,
            level=1,
            reference=0,
            at={},
            price=Estimate(each.price, each.price, each.price, 0.95),
            gain=None,
            rate_b_s=8e9,
            written=Estimate(each.written, each.written, each.written, 0.95),
            pairs=pairs,
            paired=True,
            emulated=[],
            speeds=Speeds(
                without,
                np.column_stack([speed(each.price), speed(made.slowdown / each.gain)]),
                keys,
            ),
        )
        for each in made.remedies
    ]
