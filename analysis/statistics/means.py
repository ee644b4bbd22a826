"""Means: harmonic for rates, arithmetic for times; the median of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl


def mean(values: Sequence[float], better: Literal["lower", "higher"]) -> float:
    """Mean of figures of merit for equal work.

    Times (`lower` is better) add up, so their mean is arithmetic. Rates (`higher` is better) are
    work over time: for runs of equal work in times t_i, the mean is work over mean t_i, which is
    the harmonic mean of their rates.
    """
    array = np.asarray(values, dtype=float)
    return float(1 / np.mean(1 / array) if better == "higher" else np.mean(array))


def middle(values: pl.Series) -> float | None:
    """Median of the values that are known; None without any."""
    median = values.median()
    return float(median) if isinstance(median, int | float) else None
