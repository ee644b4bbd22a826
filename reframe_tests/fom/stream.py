"""STREAM: triad bandwidth from the average time, as in Groves, Grant and Arnold (2016, IV)."""

from __future__ import annotations

from reframe_tests.fom.base import Fom, FomError, last_match

_FLOAT = r"([0-9.eE+-]+)"
#: Bytes that triad moves per element: two reads and a write of a double.
_TRIAD_ARRAYS = 3


def parse(stdout: str) -> Fom:
    """Triad bandwidth in B/s; also the best rate, the times and the size of an array.

    STREAM prints best rates in 10^6 bytes per second and times in seconds. Its own validation
    must have passed.
    """
    elements = int(last_match(r"^Array size = (\d+)", stdout, "array size").group(1))
    element_b = int(last_match(r"^This system uses (\d+) bytes", stdout, "element size").group(1))
    row = last_match(
        rf"^Triad:\s+{_FLOAT}\s+{_FLOAT}\s+{_FLOAT}\s+{_FLOAT}\s*$", stdout, "line of triad"
    )
    if "Solution Validates" not in stdout:
        raise FomError("STREAM's own validation did not pass")
    best_mb_s, average_s, minimum_s, maximum_s = (float(text) for text in row.groups())
    if not 0 < minimum_s <= average_s <= maximum_s:
        raise FomError(
            f"triad's times are {minimum_s:g} s at least, {average_s:g} s on average and"
            f" {maximum_s:g} s at most"
        )
    extra = {
        "best_b_s": best_mb_s * 1e6,
        "average_s": average_s,
        "minimum_s": minimum_s,
        "maximum_s": maximum_s,
        "array_b": float(elements * element_b),
    }
    return Fom(_TRIAD_ARRAYS * elements * element_b / average_s, extra)
