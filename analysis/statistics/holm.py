"""Holm's adjustment of p values that are read together (Holm 1979, Scand. J. Statist. 6, 65-70)."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p values, in the order given.

    The chance that any of them falls below a level although nothing is there is at most that level,
    whatever their dependence. The k-th smallest of n is multiplied by n - k + 1, and is no smaller
    than the one before.
    """
    adjusted = [1.0] * len(p)
    least = 0.0
    for place, index in enumerate(sorted(range(len(p)), key=lambda at: p[at])):
        least = max(least, min(1.0, (len(p) - place) * p[index]))
        adjusted[index] = least
    return adjusted
