"""Layouts of ranks over boxes and squares."""

from __future__ import annotations


def near_square(count: int) -> tuple[int, int]:
    """Two factors of `count`, as close to each other as possible, smaller first."""
    small = max(d for d in range(1, int(count**0.5) + 1) if count % d == 0)
    return small, count // small


def near_cube(count: int) -> tuple[int, int, int]:
    """Three factors of `count`, as close to each other as possible, smallest first."""
    best = (1, 1, count)
    for a in range(1, round(count ** (1 / 3)) + 1):
        if count % a == 0:
            best = min(best, (a, *near_square(count // a)), key=max)
    return best


def largest_cube(count: int, nodes: int = 1) -> int:
    """Edge of the largest cube of ranks that fits on `count` cores and divides by `nodes`; or 1."""
    edge = 1
    while (edge + 1) ** 3 <= count:
        edge += 1
    return next((e for e in range(edge, 0, -1) if e**3 % nodes == 0), 1)
