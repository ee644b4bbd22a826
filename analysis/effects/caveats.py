"""Caveats: one-line notes that a reader needs next to a figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.statistics.blocks import FEWEST_BLOCKS
from analysis.statistics.interval import Estimate

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


def emulated(samples: pl.DataFrame) -> list[str]:
    """Caveats of the transports of `samples`; empty for RDMA hardware."""
    return emulations([str(name) for name in samples["transport"].unique(maintain_order=True)])


def caveats(
    own: pl.DataFrame,
    blocks: Sequence[NDArray[np.float64]],
    effect: Estimate | None,
    precision: float | None,
    cap: int | None,
) -> list[str]:
    """Caveats of a treatment, from its samples `own`, its pairs in each block and its effect."""
    notes = [
        str(note) for note in own["notes"].explode(empty_as_null=False).unique(maintain_order=True)
    ]
    notes += emulated(own)
    pairs = sum(len(block) for block in blocks)
    if 0 < len(blocks) < FEWEST_BLOCKS:
        notes.append(
            f"the interval does not cover the next allocation ({len(blocks)} measured,"
            f" {FEWEST_BLOCKS} needed)"
        )
    if precision is not None and effect is not None and effect.half_width > precision:
        most = "" if cap is None else f" (at most {cap})"
        notes.append(
            f"half-width of the interval is {effect.half_width:.1%} of the slowdown after {pairs} "
            f"pairs{most}; {precision:.1%} was requested"
        )
    return notes
