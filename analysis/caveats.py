"""Caveats: one-line notes that a reader needs next to a figure."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from analysis.statistics.blocks import Scope, scope
from analysis.statistics.interval import FEWEST, Estimate

#: Transport of a writer -> caveat.
_EMULATIONS = {
    "shared memory": "writers went through shared memory on one host: emulation, not RDMA hardware",
    "soft-RoCE": "writers went over soft-RoCE: emulation by the CPU, not RDMA hardware",
    "tcp": "writers went over TCP: the target's CPU took part, this is not RDMA",
}


def emulations(transports: Sequence[str]) -> list[str]:
    """Caveats of `transports`, each a name or several joined with `+`."""
    names = dict.fromkeys(name for joined in transports for name in joined.split("+"))
    return [_EMULATIONS[name] for name in names if name in _EMULATIONS]


def caveats(
    own: pl.DataFrame,
    blocks: Sequence[Sequence[float]],
    effect: Estimate | None,
    precision: float | None,
    cap: int | None,
) -> list[str]:
    """Caveats of a treatment, from its samples `own`, the ratios of each block and their median."""
    notes = [
        str(note) for note in own["notes"].explode(empty_as_null=False).unique(maintain_order=True)
    ]
    notes += emulations([str(name) for name in own["transport"].unique(maintain_order=True)])
    pairs = sum(len(block) for block in blocks)
    if scope(blocks) is Scope.FEW:
        notes.append(f"not enough allocations to generalise ({len(blocks)} of {FEWEST})")
    if precision is not None and effect is not None and effect.half_width > precision:
        most = "" if cap is None else f" (at most {cap})"
        notes.append(
            f"half-width of the interval is {effect.half_width:.1%} of the slowdown after {pairs} "
            f"pairs{most}; {precision:.1%} was requested"
        )
    return notes
