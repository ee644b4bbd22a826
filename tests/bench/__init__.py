"""Benchmarks: `make bench` runs every module here that has `run() -> list[BenchRow]`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BenchRow:
    """One measured figure and its aim."""

    name: str
    value: float
    unit: str
    aim: str
    #: Whether the aim is met; None where the figure only informs.
    ok: bool | None
    #: How to get this figure again.
    command: str
