"""Advice on where to put data and buffers and how many cores to use, by a model's equations.

With `n` cores computing, each placement keeps a share of the best that any placement gives alone:
of computations, by `n` cores, and of communications. The better placement is the one whose smaller
share is larger.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.contention.parameters import Model, Prediction, Rates, placements, predict
from analysis.display.figures import quantity
from records.errors import InputError

#: Smallest loss that counts, as a share of a side's own rate alone.
LOSS = 0.01


@dataclass(frozen=True, kw_only=True)
class PlacementRates:
    """One placement with so many cores computing; None if the model does not know it."""

    comp_node: int
    comm_node: int
    #: True if rates were measured there, rather than predicted from other placements.
    measured: bool
    #: Rates with both running, and their shares of the best rates alone of any placement.
    comp_b_s: float | None
    comm_b_s: float | None
    comp_share: float | None
    comm_share: float | None
    #: Most cores with which neither side loses, and fewest with which both do; None: not predicted.
    unharmed_cores: int | None
    both_lose_cores: int | None

    @property
    def kept(self) -> float:
        """The smaller share, by which placements are ordered; below all if it is unknown."""
        if self.comp_share is None or self.comm_share is None:
            return -1.0
        return min(self.comp_share, self.comm_share)


def advise(
    model: Model,
    cores: int,
    comp_node: int | None = None,
    measured: Collection[tuple[int, int]] = (),
) -> list[PlacementRates]:
    """All placements with `cores` computing, the best first; `comp_node`: where the data are.

    `measured`: placements that were, beside those that the model was calibrated on. Raises
    InputError for cores or a node that the model does not have.
    """
    if not 1 <= cores <= model.cores:
        raise InputError(f"--cores: {cores} found; allowed: 1 to {model.cores}, of {model.name}")
    every = placements(model)
    nodes = sorted({node for node, _ in every})
    if comp_node is not None and comp_node not in nodes:
        raise InputError(f"--comp-node: {comp_node} found; allowed: {', '.join(map(str, nodes))}")
    known = {*measured, *((node, node) for node in model.calibrated_nodes())}
    predictions = [predict(model, *placement) for placement in every]
    best_comp = _most([predicted.comp_alone_b_s[cores - 1] for predicted in predictions])
    best_comm = _most([predicted.comm_alone_b_s[cores - 1] for predicted in predictions])
    rows = [
        _placed(
            predicted,
            cores,
            best_comp,
            best_comm,
            measured=(predicted.comp_node, predicted.comm_node) in known,
        )
        for predicted in predictions
        if comp_node in (None, predicted.comp_node)
    ]
    return sorted(rows, key=lambda row: (-row.kept, -(row.comp_share or 0.0), not row.measured))


def _placed(
    prediction: Prediction, cores: int, best_comp: float, best_comm: float, *, measured: bool
) -> PlacementRates:
    comp, comm = (
        float(rates[cores - 1]) for rates in (prediction.comp_par_b_s, prediction.comm_par_b_s)
    )
    comp_loses = _loses(prediction.comp_par_b_s, prediction.comp_alone_b_s)
    comm_loses = _loses(prediction.comm_par_b_s, prediction.comm_alone_b_s)
    known = ~np.isnan(prediction.comp_par_b_s + prediction.comm_par_b_s)
    harmed = prediction.n[known & (comp_loses | comm_loses)]
    both_lose = prediction.n[known & comp_loses & comm_loses]
    most = int(prediction.n[known][-1]) if known.any() else None
    return PlacementRates(
        comp_node=prediction.comp_node,
        comm_node=prediction.comm_node,
        measured=measured,
        comp_b_s=_known(comp),
        comm_b_s=_known(comm),
        comp_share=_known(comp / best_comp),
        comm_share=_known(comm / best_comm),
        unharmed_cores=int(harmed[0]) - 1 if len(harmed) else most,
        both_lose_cores=int(both_lose[0]) if len(both_lose) else None,
    )


def _loses(together: Rates, alone: Rates) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    loses: np.ndarray[tuple[int], np.dtype[np.bool_]] = together < (1 - LOSS) * alone
    return loses


def _most(rates: Sequence[float]) -> float:
    """The largest that is known; NaN if none is."""
    known = [rate for rate in rates if rate > 0]
    return max(known, default=float("nan"))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def sentences(model: Model, cores: int, rows: Sequence[PlacementRates]) -> list[str]:
    """The best placement, and how many cores it bears."""
    best = rows[0]
    if best.kept < 0:
        return [f"With {cores} cores computing the model of {model.name} predicts no placement."]
    basis = "measured" if best.measured else "predicted"
    basis = "published" if model.published else basis
    lines = [
        f"With {cores} of {model.cores} cores computing: data on NUMA node {best.comp_node},"
        f" buffers on node {best.comm_node} ({basis}): computations"
        f" {quantity(best.comp_b_s, 'B/s', 3)}, {_percent(best.comp_share)} of the best rate alone;"
        f" communications {quantity(best.comm_b_s, 'B/s', 3)}, {_percent(best.comm_share)}."
    ]
    until = "no number of cores makes both lose"
    if best.both_lose_cores is not None:
        until = f"both lose from {best.both_lose_cores} cores on"
    return [*lines, f"There neither side loses up to {best.unharmed_cores} cores; {until}."]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f} %"
