"""Caveats: one-line notes that a reader needs next to a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.statistics.blocks import FEWEST_BLOCKS
from analysis.statistics.interval import Estimate
from nimc.records.notes import Note

#: Share of rejected runs above which a warning says so.
_MANY_REJECTED = 0.1

#: Transport of a writer -> caveat.
_EMULATIONS = {
    "shared memory": Note.SHARED_MEMORY,
    "soft-RoCE": Note.SOFT_ROCE,
    "tcp": Note.TCP,
    "two-sided": Note.TWO_SIDED,
}


def emulations(transports: Sequence[str]) -> list[str]:
    """Caveats of `transports`, each a name or several joined with `+`."""
    names = dict.fromkeys(name for joined in transports for name in joined.split("+"))
    return [_EMULATIONS[name]() for name in names if name in _EMULATIONS]


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
        notes.append(Note.NEXT_ALLOCATION(blocks=len(blocks), needed=FEWEST_BLOCKS))
    if precision is not None and effect is not None and effect.half_width > precision:
        most = "" if cap is None else f" (at most {cap})"
        half = effect.half_width
        notes.append(Note.HALF_WIDTH(half_width=half, pairs=pairs, most=most, precision=precision))
    return notes


def selection(
    arm: str, figures: Mapping[str, tuple[Estimate | None, Estimate | None]], rejected_share: float
) -> list[str]:
    """Warnings where the choice of runs may have made a figure: repeated runs could select it.

    `figures` gives what each figure is called, the figure, and the same with first attempts;
    `rejected_share` is of the runs that the figures compare.
    """
    notes = []
    for name, (used, first) in figures.items():
        if used and first and abs(first.value - used.value) > (used.high - used.low) / 2:
            notes.append(Note.FIRST_ATTEMPTS(name=name, first=first.value, used=used.value))
    if rejected_share > _MANY_REJECTED:
        notes.append(Note.MANY_REJECTED(share=rejected_share, arm=arm, most=_MANY_REJECTED))
    return notes
