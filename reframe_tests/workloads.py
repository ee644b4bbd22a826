"""The table of workloads: the figure of merit of each, and what proves its result correct."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from nimc.records.sample import Better
from reframe_tests.fom import (
    amg,
    cns,
    hpccg,
    lammps,
    latency,
    lulesh,
    membench,
    minife,
    numa,
    snap,
    stream,
    umt,
    xsbench,
)
from reframe_tests.fom.base import Fom, FomError, require_positive


@dataclass(frozen=True)
class Workload:
    """One row of the table."""

    #: Name of the check in `reframe_tests/NAME.py`, and of the workload in samples.
    name: str
    title: str
    #: The figure of merit in words, its SI unit, and whether lower or higher is better.
    fom: str
    unit: str
    better: Better
    #: Standard output -> figure of merit; raises `FomError`, or ValueError or ArithmeticError if
    #: something is not a number.
    parser: Callable[[str], Fom]
    #: What the parser requires before it accepts the figure.
    sanity: str

    def parse(self, stdout: str) -> Fom:
        """The figure of merit, a positive number; raises only `FomError`, for any output."""
        try:
            fom = self.parser(stdout)
        except (ValueError, ArithmeticError) as error:
            raise FomError(f"the output cannot be read: {error}") from None
        require_positive(f"the {self.fom}", fom.value)
        return replace(fom, extra={k: v for k, v in fom.extra.items() if math.isfinite(v)})


_TABLE = [
    Workload(
        name="stream",
        title="STREAM 5.10",
        fom="triad bandwidth from the average time",
        unit="B/s",
        better="higher",
        parser=stream.parse,
        sanity="STREAM's own validation of the arrays",
    ),
    Workload(
        name="lammps",
        title="LAMMPS, 3D Lennard-Jones melt",
        fom="loop time",
        unit="s",
        better="lower",
        parser=lammps.parse,
        sanity="state at step 100 within 1 % of the known one, final total energy within 0.5 %",
    ),
    Workload(
        name="lammps_scaling",
        title="LAMMPS, 3D Lennard-Jones melt, weak scaling",
        fom="loop time",
        unit="s",
        better="lower",
        parser=lammps.parse,
        sanity="state at step 100 within 1 % of the known one, final total energy within 0.5 %",
    ),
    Workload(
        name="membench",
        title="membench",
        fom="bandwidth while all cores are busy",
        unit="B/s",
        better="higher",
        parser=membench.parse,
        sanity="every element of the arrays, and the NUMA nodes of their pages",
    ),
    Workload(
        name="latency",
        title="membench latency: dependent loads",
        fom="time of a load",
        unit="s",
        better="lower",
        parser=latency.parse,
        sanity="the chain is one cycle over all lines and was followed for as many loads as"
        " counted; NUMA nodes and huge pages of the memory",
    ),
    Workload(
        name="intensity",
        title="membench intensity: a chosen number of operations per byte",
        fom="bandwidth while all cores are busy",
        unit="B/s",
        better="higher",
        parser=membench.parse,
        sanity="every element of the arrays, and the NUMA nodes of their pages",
    ),
    Workload(
        name="numa",
        title="membench during RDMA, by NUMA node",
        fom="bandwidth while all workers are busy (without workers: the time slept, in s)",
        unit="B/s",
        better="higher",
        parser=numa.parse,
        sanity="every element of the arrays, and the NUMA nodes of their pages; a completed sleep",
    ),
    Workload(
        name="hpccg",
        title="HPCCG 1.0",
        fom="time of the conjugate gradients",
        unit="s",
        better="lower",
        parser=hpccg.parse,
        sanity="initial residual as computed from the grid, 149 iterations, and a final residual"
        " 1e14 times smaller",
    ),
    Workload(
        name="lulesh",
        title="LULESH 2.0.3, Sedov blast",
        fom="elapsed time",
        unit="s",
        better="lower",
        parser=lulesh.parse,
        sanity="final origin energy within 1e-5 of the known one, energies symmetric to 1e-8",
    ),
    Workload(
        name="cns",
        title="CNS (BoxLib, Exp_CNS_NoSpec_F)",
        fom="run time",
        unit="s",
        better="lower",
        parser=cns.parse,
        sanity="first Courant number within 1e-5 of the initial state's, all steps made, solution"
        " stable",
    ),
    Workload(
        name="snap",
        title="SNAP 1.12",
        fom="time of the solver",
        unit="s",
        better="lower",
        parser=snap.parse,
        sanity="SNAP reports success, outer change below 100 epsi, scalar flux symmetric to 1e-4",
    ),
    Workload(
        name="xsbench",
        title="XSBench 20",
        fom="cross-section lookups per second",
        unit="1/s",
        better="higher",
        parser=xsbench.parse,
        sanity="the first rank's verification checksum as known for the method and size (every rank"
        " runs the whole problem)",
    ),
    Workload(
        name="minife",
        title="miniFE 2.1.0",
        fom="time of the conjugate gradients",
        unit="s",
        better="lower",
        parser=minife.parse,
        sanity="residual below the machine's epsilon, or 1 % of the first after the full 200"
        " iterations; solution within 6 % of the analytic one",
    ),
    Workload(
        name="amg",
        title="AMG 1.2, problem 1",
        fom="FOM_1: non-zeros per second, one part set-up and three parts solve",
        unit="1/s",
        better="higher",
        parser=amg.parse,
        sanity="relative residual below 1e-8, FOM_1 consistent with its phases",
    ),
    Workload(
        name="umt",
        title="UMT 5, benchmark problem 2",
        fom="unknowns solved per second",
        unit="1/s",
        better="higher",
        parser=umt.parse,
        sanity="UMT's energy check passed, balance within 1e-9 and consistent with the last cycle",
    ),
]

WORKLOADS: dict[str, Workload] = {row.name: row for row in _TABLE}
