"""HPCCG: time of the conjugate gradients, proved by the residuals that the problem must have."""

from __future__ import annotations

from itertools import product
from math import prod, sqrt

from reframe_tests.fom.base import Fom, FomError, last_number, require_close, require_positive

#: HPCCG runs to its 150th iteration whatever the residual, and counts from 1.
ITERATIONS = 149
#: A row holds 27 and at most 26 times -1, so the condition number is at most 53, and 149
#: iterations shrink the error by 2 * 0.758^149 = 2e-18 or more; the rest is left to rounding.
_REDUCTION = 1e-14
#: The initial residual is printed with six digits.
_SIX_DIGITS = 1e-5


def parse(stdout: str) -> Fom:
    """Total time in seconds; also ranks, iterations, time in two kernels, and final residual."""
    nx, ny, nz = (int(last_number(f"{name}:", stdout)) for name in ("nx", "ny", "nz"))
    ranks = int(last_number("Number of MPI ranks:", stdout))
    initial = last_number("Initial Residual =", stdout)
    known = initial_residual(nx, ny, nz * ranks)
    require_close("the initial residual", initial, known, _SIX_DIGITS)
    iterations = int(last_number("Number of iterations:", stdout))
    if iterations != ITERATIONS:
        raise FomError(f"HPCCG made {iterations} iterations, not {ITERATIONS}")
    final = last_number("Final residual:", stdout)
    if not 0 <= final <= _REDUCTION * initial:
        raise FomError(f"the final residual is {final:g}, not below {_REDUCTION:g} of the first")
    times = stdout.partition("Time Summary:")[2].partition("FLOPS Summary:")[0]
    extra = {
        "ranks": float(ranks),
        "sparsemv_s": last_number("SPARSEMV:", times),
        "ddot_s": last_number("DDOT    :", times),
        "iterations": float(iterations),
        "final_residual": final,
    }
    return Fom(require_positive("the total time", last_number("Total   :", times)), extra)


def initial_residual(nx: int, ny: int, nz: int) -> float:
    """Norm of the right-hand side, HPCCG's initial residual, on a grid of nx * ny * nz points.

    A point whose 27-point neighbourhood has k points has 28 - k on its right-hand side. Along one
    axis the two end points have two points in it, the others three.
    """
    axes = [((2, 2), (3, n - 2)) if n > 1 else ((1, 1),) for n in (nx, ny, nz)]
    squares = 0
    for kinds in product(*axes):
        seen, points = prod(k for k, _ in kinds), prod(count for _, count in kinds)
        squares += points * (28 - seen) ** 2
    return sqrt(squares)
