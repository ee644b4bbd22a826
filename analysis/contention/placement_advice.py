"""Advice on where to put data and buffers, and how many cores to use, by a model's equations.

There are two sides: computations on a number of cores, and communications. A placement is the NUMA
node of the computations' data and the node of the communication buffers. On each placement, the
share of a side is its rate while both sides run, divided by the best rate that this side has alone
on any placement. The best placement is the one whose smaller share is largest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.contention.parameters import Model, Prediction, Rates, placements, predict
from analysis.display.figures import quantity
from records.errors import InputError
from records.units import percentage, plural

#: Smallest loss that counts, as a share of the rate that a side has alone on the placement.
MIN_LOSS_SHARE = 0.01


@dataclass(frozen=True, kw_only=True)
class PlacementRates:
    """One placement while a number of cores compute. A field is None if the model cannot tell."""

    comp_node: int
    comm_node: int
    #: True if the placement was measured, false if it is predicted from others.
    measured: bool
    #: Rate of computations while both sides run.
    comp_b_s: float | None
    #: Rate of communications while both sides run.
    comm_b_s: float | None
    #: `comp_b_s` / best rate of computations alone on any placement.
    comp_share: float | None
    #: `comm_b_s` / best rate of communications alone on any placement.
    comm_share: float | None
    #: Largest number of cores up to which neither side loses.
    unharmed_cores: int | None
    #: Smallest number of cores with which both sides lose.
    both_lose_cores: int | None

    @property
    def smaller_share(self) -> float:
        """The smaller share, by which placements are ordered; -1 if a share is unknown."""
        if self.comp_share is None or self.comm_share is None:
            return -1.0
        return min(self.comp_share, self.comm_share)


def advise(
    model: Model,
    cores: int,
    comp_node: int | None = None,
    measured_placements: Collection[tuple[int, int]] = (),
) -> list[PlacementRates]:
    """Return the placements while `cores` cores compute, the best placement first.

    `comp_node` is the node of the data. With None, it may be any node. `measured_placements` are
    the placements that were measured besides those on which the model was calibrated. Raises
    InputError for a number of cores or a node that the model does not have.
    """
    if not 1 <= cores <= model.cores:
        raise InputError(f"--cores: {cores} found; allowed: 1 to {model.cores}, of {model.name}")
    all_placements = placements(model)
    nodes = sorted({node for node, _ in all_placements})
    if comp_node is not None and comp_node not in nodes:
        raise InputError(f"--comp-node: {comp_node} found; allowed: {', '.join(map(str, nodes))}")
    all_measured = {*measured_placements, *((node, node) for node in model.calibrated_nodes())}
    predictions = [predict(model, *placement) for placement in all_placements]
    best_comp_b_s = _largest_known(
        [prediction.comp_alone_b_s[cores - 1] for prediction in predictions]
    )
    best_comm_b_s = _largest_known(
        [prediction.comm_alone_b_s[cores - 1] for prediction in predictions]
    )
    rows = [
        _placement_rates(
            prediction,
            cores,
            best_comp_b_s,
            best_comm_b_s,
            measured=(prediction.comp_node, prediction.comm_node) in all_measured,
        )
        for prediction in predictions
        if comp_node in (None, prediction.comp_node)
    ]
    return sorted(rows, key=_preference)


def _preference(row: PlacementRates) -> tuple[float, float, bool, float]:
    """Return the sort key of a placement. Shares of the same whole per cent count as equal.

    Of placements with equal shares, a measured one comes first.
    """
    comp_share = row.comp_share or 0.0
    return -round(row.smaller_share, 2), -round(comp_share, 2), not row.measured, -row.smaller_share


def _placement_rates(
    prediction: Prediction,
    cores: int,
    best_comp_b_s: float,
    best_comm_b_s: float,
    *,
    measured: bool,
) -> PlacementRates:
    comp_together_b_s = float(prediction.comp_par_b_s[cores - 1])
    comm_together_b_s = float(prediction.comm_par_b_s[cores - 1])
    comp_loses = _loses(prediction.comp_par_b_s, prediction.comp_alone_b_s)
    comm_loses = _loses(prediction.comm_par_b_s, prediction.comm_alone_b_s)
    known = ~np.isnan(prediction.comp_par_b_s + prediction.comm_par_b_s)
    harmed = prediction.n[known & (comp_loses | comm_loses)]
    both_lose = prediction.n[known & comp_loses & comm_loses]
    last_known = int(prediction.n[known][-1]) if known.any() else None
    return PlacementRates(
        comp_node=prediction.comp_node,
        comm_node=prediction.comm_node,
        measured=measured,
        comp_b_s=_none_if_nan(comp_together_b_s),
        comm_b_s=_none_if_nan(comm_together_b_s),
        comp_share=_none_if_nan(comp_together_b_s / best_comp_b_s),
        comm_share=_none_if_nan(comm_together_b_s / best_comm_b_s),
        unharmed_cores=int(harmed[0]) - 1 if len(harmed) else last_known,
        both_lose_cores=int(both_lose[0]) if len(both_lose) else None,
    )


def _loses(together: Rates, alone: Rates) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each number of cores whether a side loses more than `MIN_LOSS_SHARE`."""
    loses: np.ndarray[tuple[int], np.dtype[np.bool_]] = together < (1 - MIN_LOSS_SHARE) * alone
    return loses


def _largest_known(rates: Sequence[float]) -> float:
    """Return the largest known rate above zero; NaN if there is none. Shares are relative to it."""
    positive_rates = [rate for rate in rates if rate > 0]
    return max(positive_rates, default=float("nan"))


def _none_if_nan(value: float) -> float | None:
    return None if np.isnan(value) else value


def placement_basis(model: Model, row: PlacementRates) -> str:
    """Return the word which says whether a placement was measured; its rates are the model's."""
    if model.published:
        return "published"
    return "measured" if row.measured else "predicted"


def sentences(model: Model, cores: int, rows: Sequence[PlacementRates]) -> list[str]:
    """Return sentences on the best placement, and on how many cores can compute without loss."""
    best = rows[0]
    if best.smaller_share < 0:
        cores_text = plural(cores, "core")
        return [f"While {cores_text} compute, the model of {model.name} predicts no placement."]
    basis = placement_basis(model, best)
    if not model.published:
        basis = f"placement {basis}"
    both_lose = "no number of cores that the model predicts makes both lose"
    if best.both_lose_cores is not None:
        both_lose = f"both lose from {plural(best.both_lose_cores, 'core')} on"
    return [
        f"With {cores} of {model.cores} cores computing: data on NUMA node {best.comp_node},"
        f" buffers on node {best.comm_node} ({basis}). By the model,"
        f" computations {quantity(best.comp_b_s, 'B/s', 3)}, {_percent(best.comp_share)} of the"
        f" best rate alone; communications {quantity(best.comm_b_s, 'B/s', 3)},"
        f" {_percent(best.comm_share)}.",
        f"There neither side loses up to {plural(best.unharmed_cores or 0, 'core')}; {both_lose}.",
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else percentage(share)
