"""miniFE: time of the conjugate gradients, proved by the residual and the analytic solution.

miniFE prints its progress and writes its figures to a YAML file, which the check appends.
"""

from __future__ import annotations

from sys import float_info

from reframe_tests.fom.base import Fom, FomError, last_match, last_number, require_positive

#: Limit of iterations; grids beyond 50 elements along the edge take all of them.
MAX_ITERATIONS = 200
#: Largest share of the first residual that may then be left.
_LEFT = 1e-2


def parse(stdout: str) -> Fom:
    """CG time in seconds; also time in the matrix-vector product, iterations, rows, residual."""
    time_s = last_number("Total CG Time:", stdout)
    dimensions = [int(last_number(f"{name}:", stdout)) for name in ("nx", "ny", "nz")]
    rows = int(last_number("Global Nrows:", stdout))
    nodes = (dimensions[0] + 1) * (dimensions[1] + 1) * (dimensions[2] + 1)
    if rows != nodes:
        raise FomError(f"the matrix has {rows} rows; elements of {dimensions} have {nodes} nodes")
    iterations = int(last_number("Iterations:", stdout))
    residual = last_number("Final Resid Norm:", stdout)
    most = float_info.epsilon
    if iterations == MAX_ITERATIONS:
        most = _LEFT * last_number("Initial Residual =", stdout)
    if not 0 <= residual <= most or not 0 < iterations <= MAX_ITERATIONS:
        raise FomError(f"the residual is {residual:g} after {iterations} iterations")
    last_match(
        r"^solution matches analytic solution to within 0\.06 or better",
        stdout,
        "match with the analytic solution (-verify_solution 1)",
    )
    extra = {
        "matvec_s": last_number("MATVEC Time:", stdout),
        "iterations": float(iterations),
        "rows": float(rows),
        "final_residual": residual,
    }
    return Fom(require_positive("the CG time", time_s), extra)
