"""AMG, problem 1 (AMG-PCG on a 27-point Laplacian): its figure of merit, proved by convergence."""

from __future__ import annotations

from reframe_tests.fom.base import (
    FLOAT,
    Fom,
    FomError,
    last_match,
    last_number,
    require_close,
    require_positive,
)

#: Relative residual at which the solver stops, and more iterations than the method ever needs.
_TOLERANCE = 1e-8
_MAX_ITERATIONS = 100
#: Figures are printed with seven digits.
_SEVEN_DIGITS = 1e-5


def parse(stdout: str) -> Fom:
    """AMG's FOM_1 in non-zeros per second; also set-up and solve times and iterations."""
    figure = last_number("Figure of Merit (FOM_1):", stdout)
    residual = last_number("Final Relative Residual Norm =", stdout)
    iterations = int(last_number("Iterations =", stdout))
    if not 0 < residual < _TOLERANCE or not 0 < iterations < _MAX_ITERATIONS:
        raise FomError(f"the relative residual is {residual:g} after {iterations} iterations")
    setup = last_number("FOM_Setup: nnz_AP / Setup Phase Time:", stdout)
    solve = last_number("FOM_Solve: nnz_AP * Iterations / Solve Phase Time:", stdout)
    # AMG's weights: one part set-up, three parts solve.
    require_close("FOM_1", figure, (setup + 3 * solve) / 4, _SEVEN_DIGITS)
    setup_s, solve_s = _wall(stdout, "PCG Setup:"), _wall(stdout, "PCG Solve:")
    # Both phases count the same non-zeros, so the two rates and times must agree.
    require_close("the solver's rate", solve * solve_s / iterations, setup * setup_s, 1e-3)
    extra = {"setup_s": setup_s, "solve_s": solve_s, "iterations": float(iterations)}
    return Fom(require_positive("FOM_1", figure), extra)


def _wall(stdout: str, phase: str) -> float:
    pattern = rf"^{phase}\s+wall clock time = {FLOAT} seconds"
    return float(last_match(pattern, stdout, f"time of '{phase}'").group(1))
