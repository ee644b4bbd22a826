"""Error bands: how far measurements that a fit had not seen were from their predictions.

Placements other than the two calibrated ones are held out whole; for the calibrated ones, numbers
of cores are. If no other placement was measured, numbers of cores stand in for them, and the bands
say so.
"""

from __future__ import annotations

import math

import numpy as np

from analysis.contention.evaluate import Deviation
from analysis.contention.parameters import Band, Bands
from analysis.contention.sweep import Sweep

#: Part of the measurements that a band is made to hold.
COVERAGE = 0.9
#: Fewest measurements whose largest deviation makes such a band.
FEWEST = 9
#: Mean relative deviation beyond which the equations do not describe a machine. The largest
#: published mean is 0.11 (billy, communications).
BOUND = 0.15
#: Deviations beyond this count as this: those from a prediction of zero are not finite.
LARGEST = 10.0

PLACEMENTS, CORES = "placements", "numbers of cores"
RATES = {
    "comp_par": "computations",
    "comm_par": "communications",
    "comp_alone": "computations alone",
}


def bands(
    without_cores: list[Deviation], without_placements: list[Deviation], sweep: Sweep
) -> dict[str, Bands]:
    """Bands of `local`, `remote` and `others`, each if something was held out for it."""
    by_cores = {
        name: [d for d in without_cores if d.at == (node, node)]
        for name, node in (("local", 0), ("remote", sweep.numa_per_socket))
    }
    others = (without_placements or without_cores) if sweep.numa_nodes > 1 else []
    held_out = PLACEMENTS if without_placements else CORES
    found = {name: _bands(mine, CORES) for name, mine in by_cores.items() if mine}
    return found | ({"others": _bands(others, held_out)} if others else {})


def mean_deviation(found: list[Deviation]) -> float:
    """Mean relative deviation of all three rates; infinite without any."""
    widths = [width for rate in RATES for width in _widths(found, rate)]
    return float(np.mean(widths)) if widths else math.inf


def misfits(found: dict[str, Bands]) -> list[str]:
    """A sentence for each rate that the equations do not describe; empty if they describe all."""
    sentences = []
    for where, each in found.items():
        for rate, words in RATES.items():
            band: Band | None = getattr(each, rate)
            if band is not None and band.mean > BOUND:
                sentences.append(
                    f"these equations do not describe this machine: {words} ({where}) are"
                    f" {band.mean:.0%} off on average if {each.held_out} are held out,"
                    f" more than {BOUND:.0%}"
                )
    return sentences


def _bands(found: list[Deviation], held_out: str) -> Bands:
    return Bands(held_out, **{rate: _band(_widths(found, rate)) for rate in RATES})


def _band(widths: list[float]) -> Band | None:
    """The conformal quantile; of few measurements it is the largest, and holds less than stated."""
    if not widths:
        return None
    rank = min(math.ceil(COVERAGE * (len(widths) + 1)), len(widths))
    return Band(sorted(widths)[rank - 1], float(np.mean(widths)), len(widths))


def _widths(found: list[Deviation], rate: str) -> list[float]:
    """How far measurements were from predictions, relative to the prediction."""
    ratios = [getattr(d, rate) for d in found]
    return [
        min(abs(1 / ratio - 1), LARGEST) if ratio > 0 else LARGEST
        for ratio in ratios
        if ratio is not None
    ]
