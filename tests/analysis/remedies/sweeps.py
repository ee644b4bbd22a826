"""Makes sweeps of rates of writers, with and without a reserved core. Nothing here was measured.

The baseline has 14 GB/s, and loses 0.3 bytes for each byte written. A reserved core costs 1.2 GB/s;
with it, 0.1 bytes are lost. So at a rate of 4 GB/s, the loss without the core equals the core's
price. At 6 GB/s, the application is as fast with the core as without. Writers reach nine tenths of
their requested rate.
"""

import numpy as np

from records.arms import treatment_name
from records.sample import Sample
from tests.analysis.synthetic import Case, at_rate, crossed, samples

OFF_B_S, PRICE_B_S, ALONE_B_S = 14e9, 1.2e9, 8e9
SLOPE, RESERVED_SLOPE = 0.3, 0.1
CROSSOVER_B_S, SAME_RATE_B_S = 4e9, 6e9
SHARES = {"25%": 0.25, "50%": 0.5, "75%": 0.75, "full": 1.0}
REACHED = 0.9


def sweep(noise: float = 0.01, square: float = 0.0, transport: str = "InfiniBand") -> Case:
    """Return the case of a sweep.

    `square` is the share of the loss at the full rate that grows with the square of the rate.
    """
    effects: dict[str, float] = {}
    for cores in (0, 1):
        levels = {"reserved_cores": "1"} if cores else {}
        base_b_s = OFF_B_S - cores * PRICE_B_S
        effects |= {treatment_name(arm, levels): OFF_B_S / base_b_s for arm in ("off", "aa")}
        for rate, share in SHARES.items():
            name = treatment_name("on", levels if rate == "full" else {**levels, "rate": rate})
            line = (RESERVED_SLOPE if cores else SLOPE) * share * REACHED * ALONE_B_S
            bent = square * SLOPE * REACHED * ALONE_B_S * (share**2 - share)
            effects[name] = OFF_B_S / (base_b_s - line - bent)
    case = Case(
        name="stream",
        unit="B/s",
        better="higher",
        base=OFF_B_S,
        effects=effects,
        noise=noise,
        pair_noise=3 * noise,
        transport=transport,
        origin="origin-0",
    )
    return crossed(case, {"reserved_cores": 0}, {"rate": "full"})


def swept(case: Case, *, pairs: int = 10, seed: int = 1) -> list[Sample]:
    """Draw the samples of a sweep, with rates that its writers reached."""
    rng = np.random.default_rng(1000 + seed)
    runs = []
    for sample in samples(case, pairs=pairs, seed=seed):
        alone = SHARES.get(str(sample.factors.get("rate")), 0.0) * ALONE_B_S
        if sample.writers:
            rate = REACHED * alone * float(rng.uniform(0.98, 1.02))
            sample = at_rate(sample, rate, rate_alone_b_s=alone)
        runs.append(sample)
    return runs
