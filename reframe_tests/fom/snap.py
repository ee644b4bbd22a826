"""SNAP: time of the solver, proved by convergence and by the symmetry of the scalar flux.

The check gives SNAP a uniform source in a uniform box with open sides, so the flux is symmetric in
x, and in y as far as the last sweeps converged.
"""

from __future__ import annotations

import re

from reframe_tests.fom.base import Fom, FomError, last_match, last_number, require_positive

#: The outer iteration stops below a hundred times epsi.
_OUTER = 100
#: Fluxes are printed with five digits.
_SYMMETRY = 1e-4


def parse(stdout: str) -> Fom:
    """Solve time in seconds; also sweep time, grind time and iterations."""
    error = re.search(r"\*{3}ERROR: (.*?)\s*$", stdout, re.MULTILINE)
    if error:
        raise FomError(f"SNAP: {error.group(1)}")
    if "Success! Done in a SNAP!" not in stdout:
        raise FomError("SNAP did not report success")
    epsi = last_number("epsi=", stdout)
    change = last_match(r"^\s*\d+\s+Dfmxo=\s*(\S+)", stdout, "outer iteration").group(1)
    if not 0 <= float(change) <= _OUTER * epsi:
        raise FomError(f"the outer iteration stopped at a change of {change}, epsi is {epsi:g}")
    for plane in flux_planes(stdout):
        _check_symmetry(plane)
    iterations = last_match(
        r"^\s*No\. Outers=\s*(\d+)\s+No\. Inners=\s*(\d+)", stdout, "count of iterations"
    )
    extra = {
        "sweeps_s": last_number("Transport Sweeps", stdout),
        "grind_s": last_number("Grind Time (nanoseconds)", stdout) * 1e-9,
        "outers": float(iterations.group(1)),
        "inners": float(iterations.group(2)),
    }
    return Fom(require_positive("the solve time", last_number("Solve", stdout)), extra)


def flux_planes(stdout: str) -> list[list[list[float]]]:
    """The scalar flux at mid-height, one plane per energy group: rows along y, columns along x."""
    planes = []
    for text in re.split(r"Group=\s*\d+\s+Z Mid-Plane=\s*\d+", stdout)[1:]:
        rows: dict[int, list[float]] = {}
        text = re.split(r"\*{80}", text)[0]
        for y, fluxes in re.findall(r"^\s+(\d+)((?:\s+\d\.\d+E[-+]\d+)+)\s*$", text, re.MULTILINE):
            rows.setdefault(int(y), []).extend(float(flux) for flux in fluxes.split())
        planes.append([rows[y] for y in sorted(rows)])
    if not planes:
        raise FomError("the output has no scalar flux (soloutp=1)")
    return planes


def _check_symmetry(plane: list[list[float]]) -> None:
    mirrored = [(row, row[::-1]) for row in plane] + list(zip(plane, plane[::-1], strict=True))
    for row, mirror in mirrored:
        for flux, other in zip(row, mirror, strict=True):
            if not flux > 0 or abs(flux - other) > _SYMMETRY * flux:
                raise FomError(f"the scalar flux is not symmetric: {flux:g} mirrors {other:g}")
