"""CNS with and without writers (Groves, Grant and Arnold 2016, section V)."""

import re
from collections.abc import Callable
from math import cos, pi, sin, sqrt

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, ThreadsMixin
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import (
    FLOAT,
    Fom,
    FomError,
    Workload,
    last_match,
    last_number,
    require_close,
)


@rfm.simple_test
class cns(rfm.RunOnlyRegressionTest, BinariesMixin, ThreadsMixin, WorkingSetMixin, NimcMixin):
    """Compressible Navier-Stokes on boxes of a cube, one rank per core."""

    descr = "CNS under RDMA writes"
    workload = "cns"
    mpi = True
    sourcesdir = None
    program = executable = "cns"
    tags = {"single_node"}
    within_block = ("layout", "cells", "box", "steps", "working_set")
    #: The cube does not grow with the ranks.
    comparable_across_cores = True

    #: Cells along the edge of the cube and of its boxes, and time steps.
    cells = variable(int, value=128)
    box = variable(int, value=32)
    steps = variable(int, value=5)

    def lay_out(self):
        """Write the input, without plot files."""
        self.ranks(*self.shape(self.app_cores))
        box = self.box_of()
        lines = [f"nsteps={self.steps}", "plot_int=0", f"n_cell={self.cells}"]
        lines += [f"max_grid_size={box}", "cfl=0.5d0", "eta=1.8d-4", "alam=1.5d2"]
        text = "\n".join(["&probin", *(f"  {line}" for line in lines), "/", ""])
        self.executable_opts = [self.input_file("inputs", text)]

    def box_of(self):
        """Edge of the boxes: the largest that divides the cube and is within the working set."""
        possible = [edge for edge in range(_LEAST_BOX, self.cells + 1) if self.cells % edge == 0]
        size_b, box = self.chosen_b(box_b(possible[0])), self.box
        if size_b is not None:
            box = max(edge for edge in possible if box_b(edge) <= size_b)
        self.working_set_b = box_b(box)
        return box


#: Arrays of doubles of a box: with ghost cells on each side (five of the state, twice, six of the
#: primitive variables and nine gradients), and without them (both kinds of fluxes, five each).
_WITH_GHOSTS, _GHOSTS, _WITHOUT = 25, 4, 10
#: Smallest edge of a box that is chosen.
_LEAST_BOX = 8


def box_b(edge: int) -> float:
    """Memory of a box of so many cells along the edge, bytes, which a rank takes one by one."""
    return 8.0 * (_WITH_GHOSTS * (edge + 2 * _GHOSTS) ** 3 + _WITHOUT * edge**3)


short_form(cns, cells=64, steps=3)


# Run time, proved by the wave speed that the initial state must have.

#: Ideal gas of the initial state: ratio of heats, energy per mass (cm^2/s^2), cube's edge (cm).
_GAMMA, _ENERGY, _EDGE = 1.4, 2.5e9, 0.2
_FIRST_TOLERANCE = 1e-5
#: Cells along the edge: more fit into no machine.
_MOST_CELLS = 100_000
#: Over tens of steps the fastest wave changes by a few percent; a run that blows up exceeds these.
_GROWTH = (0.5, 2.0)


def parse(stdout: str) -> Fom:
    """Run time in seconds; also the number of steps and cells, and the simulated time."""
    cells = int(_input(stdout, "N_CELL"))
    if not 0 < cells <= _MOST_CELLS:
        raise FomError(f"N_CELL is {cells}; allowed: 1 to {_MOST_CELLS}")
    steps = int(_input(stdout, "NSTEPS"))
    cfl = _input(stdout, "CFL")
    pairs = re.findall(rf"^\s*dt,courno\s+{FLOAT}\s+{FLOAT}\s*$", stdout, re.MULTILINE)
    run_s = last_number("Run time (s) =", stdout)
    if len(pairs) != steps:
        raise FomError(f"CNS made {len(pairs)} of {steps} steps")
    first = fastest_wave(cells)
    require_close("the first Courant number", float(pairs[0][1]), first, _FIRST_TOLERANCE)
    for dt, courant in ((float(dt), float(courant)) for dt, courant in pairs):
        if not _GROWTH[0] * first <= courant <= _GROWTH[1] * first:
            raise FomError(f"the solution blew up: Courant number {courant:g} from {first:g}")
        require_close("the step's length", dt, cfl / courant, _FIRST_TOLERANCE)
    simulated_s = sum(float(dt) for dt, _ in pairs)
    extra = {"steps": float(steps), "cells": float(cells**3), "simulated_s": simulated_s}
    return Fom(run_s, extra)


def fastest_wave(cells: int) -> float:
    """Fastest wave of the initial state in cells per second, for `cells` along the cube's edge.

    The velocities are products of sines and cosines, sampled at the cells' lower corners; each
    factor reaches its extreme somewhere along its own axis.
    """

    def peak(wave: Callable[[float], float], number: int) -> float:
        return max(abs(wave(2 * pi * number * i / cells)) for i in range(cells))

    velocities = (
        1.1e4 * peak(sin, 1) * peak(sin, 2) * peak(sin, 3),
        1.0e4 * peak(sin, 2) * peak(sin, 4) * peak(sin, 1),
        1.2e4 * peak(sin, 3) * peak(cos, 2) * peak(sin, 2),
    )
    sound = sqrt(_GAMMA * (_GAMMA - 1) * _ENERGY)
    return (sound + max(velocities)) * cells / _EDGE


def _input(stdout: str, name: str) -> float:
    """A value of the namelist that CNS prints."""
    return float(last_match(rf"^\s*{name}=\s*{FLOAT}", stdout, f"input {name}").group(1))


WORKLOAD = Workload(
    title="CNS (BoxLib, Exp_CNS_NoSpec_F)",
    fom="run time",
    unit="s",
    better="lower",
    sanity="first Courant number within 1e-5 of the initial state's, all steps made, solution"
    " stable",
    parser=parse,
)
