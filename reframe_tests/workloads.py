"""The table of workloads: what each reports of itself, and what proves its answer right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from analysis.sample import Better
from reframe_tests.fom import lammps, stream
from reframe_tests.fom.base import Fom


@dataclass(frozen=True)
class Workload:
    """One row of the table."""

    #: Name of the check in `reframe_tests/NAME.py`, and of the workload in samples.
    name: str
    title: str
    #: The figure of merit in words, its SI unit, and which direction is better.
    fom: str
    unit: str
    better: Better
    #: From standard output to the figure of merit; raises `FomError`.
    parse: Callable[[str], Fom]
    #: What the parser demands before it believes the figure.
    sanity: str


_TABLE = [
    Workload(
        name="stream",
        title="STREAM 5.10",
        fom="triad bandwidth from the average time",
        unit="B/s",
        better="higher",
        parse=stream.parse,
        sanity="STREAM's own validation of the arrays",
    ),
    Workload(
        name="lammps",
        title="LAMMPS, 3D Lennard-Jones melt",
        fom="loop time",
        unit="s",
        better="lower",
        parse=lammps.parse,
        sanity="state at step 100 within 1 % of the known one, final total energy within 0.5 %",
    ),
]

WORKLOADS: dict[str, Workload] = {row.name: row for row in _TABLE}
