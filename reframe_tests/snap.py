"""SNAP with and without RDMA writes (Groves, Grant and Arnold 2016, section V)."""

import re
from collections.abc import Iterator
from math import nan

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import variable

from reframe_tests.binaries import ProgramTest, near_square
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import FomError, Within, Workload

#: Edge of a cell; the box grows with the ranks.
_CELL_CM = 0.1
#: Number of parts into which a rank's cells are divided along x; it must divide their number.
_CHUNKS = 4
#: Input that does not depend on size and layout: a uniform source in uniform material with open
#: sides. Its solution is symmetric, and is printed at mid-height to check that.
_FIXED_INPUT = (
    "nnested=1 ndimen=3 nmom=2 epsi=1.0E-4 iitm=5 oitm=40 timedep=0 tf=1.0 nsteps=1 mat_opt=0"
    " src_opt=0 scatp=0 it_det=0 fluxp=0 fixup=1 soloutp=1 kplane=0 popout=0 swp_typ=0 angcpy=1"
    " multiswp=1"
)


@rfm.simple_test
class snap(ProgramTest):
    """Discrete ordinates on a 2D layout of ranks, one per core (weak scaling)."""

    workload = "snap"
    sourcesdir = "src/show_after"
    stack = "proxyapps"
    package = "snap"
    program = "gsnap"
    executable = "./show_after.sh"
    within_block = ("angles", "groups")

    #: Cells of each rank along x, y and z.
    cells = variable(typ.Tuple[int, int, int], value=(32, 8, 8))

    #: Angles per octant, and energy groups.
    angles = variable(int, value=32)
    groups = variable(int, value=16)

    def lay_out(self):
        """Write the input: y and z are divided among the ranks, x is not."""
        self.rank_per_core()
        ranks_y, ranks_z = near_square(self.app_cores)
        cells_x, cells_y, cells_z = self.cells
        lines = [f"npey={ranks_y} npez={ranks_z} ichunk={cells_x // _CHUNKS} nthreads=1"]
        for axis, cells in (("x", cells_x), ("y", cells_y * ranks_y), ("z", cells_z * ranks_z)):
            lines.append(f"n{axis}={cells} l{axis}={cells * _CELL_CM:.4f}")
        lines += [f"nang={self.angles} ng={self.groups}", *_FIXED_INPUT.split()]
        text = "\n".join(["&invar", *(f"  {line}" for line in lines), "/", ""])
        name = self.input_file("snap.in", "! uniform source, open sides\n" + text)
        self.executable_opts = ["snap.out", self.program, name, "snap.out"]


add_short_form(snap, angles=16, groups=8)


def flux_planes(stdout: str) -> list[list[list[float]]]:
    """Return the scalar flux at mid-height: a plane for each energy group, as rows along x."""
    planes = []
    for table in re.split(r"Group=\s*\d+\s+Z Mid-Plane=\s*\d+", stdout)[1:]:
        rows: dict[int, list[float]] = {}
        table = re.split(r"\*{80}", table)[0]
        for y, fluxes in re.findall(
            r"^\s+(\d+)((?:\s+-?\d\.\d+E[-+]\d+)+)\s*$", table, re.MULTILINE
        ):
            rows.setdefault(int(y), []).extend(float(flux) for flux in fluxes.split())
        planes.append([rows[y] for y in sorted(rows)])
    if not planes:
        raise FomError("the output has no scalar flux (soloutp=1)")
    return planes


def _asymmetry(stdout: str) -> float:
    """Return the largest relative difference of mirrored fluxes; NaN if a flux is not positive."""
    asymmetry = 0.0
    for plane in flux_planes(stdout):
        for flux, mirror_flux in _mirrored_pairs(plane):
            if not flux > 0:
                return nan
            asymmetry = max(asymmetry, abs(flux - mirror_flux) / flux)
    return asymmetry


def _mirrored_pairs(plane: list[list[float]]) -> Iterator[tuple[float, float]]:
    """Yield each flux with its mirror image, first along x, then along y."""
    for row in plane:
        yield from zip(row, reversed(row), strict=True)
    for row, opposite_row in zip(plane, reversed(plane), strict=True):
        yield from zip(row, opposite_row, strict=True)


WORKLOAD = Workload(
    title="SNAP 1.12",
    fom="time of the solver",
    unit="s",
    better="lower",
    figure="solve_s",
    error=r"\*{3}ERROR: .*",
    numbers={
        "solve_s": "Solve",
        "sweeps_s": "Transport Sweeps",
        "grind_ns": "Grind Time (nanoseconds)",
        "outers": re.compile(r"^\s*No\. Outers=\s*(\d+)"),
        "inners": re.compile(r"^\s*No\. Outers=\s*\d+\s+No\. Inners=\s*(\d+)"),
        "epsi": "epsi=",
        "change": re.compile(r"^\s*\d+\s+Dfmxo=\s*(\S+)"),
        "asymmetry": _asymmetry,
    },
    derived={
        "grind_s": lambda numbers: numbers.grind_ns * 1e-9,
        "change_per_epsi": lambda numbers: numbers.change / numbers.epsi,
    },
    extra=("sweeps_s", "grind_s", "outers", "inners"),
    proof={
        "SNAP reports success": r"Success! Done in a SNAP!",
        "outer change below 100 epsi": Within("change_per_epsi", 0, 100),
        # The source is uniform, in a uniform box with open sides; fluxes have five digits.
        "scalar flux symmetric to 1e-4": Within("asymmetry", 0, 1e-4),
    },
)
