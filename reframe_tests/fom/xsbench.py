"""XSBench: lookups per second, proved by the checksum of the sampled cross-sections."""

from __future__ import annotations

import re

from reframe_tests.fom.base import Fom, FomError, last_match, require_positive

#: Checksum of version 20 by method and size, for the default numbers of lookups and grid points.
#: (The program compares with the same numbers, but it could have been edited.)
CHECKSUMS = {
    ("history", "small"): 941535,
    ("history", "large"): 954318,
    ("event", "small"): 945990,
    ("event", "large"): 952131,
}


def parse(stdout: str) -> Fom:
    """Cross-section lookups per second, all ranks and threads together."""
    method = _text(stdout, "Simulation Method").split()[0].lower()
    size = _text(stdout, "H-M Benchmark Size")
    found = last_match(r"^Verification checksum:\s*(\d+)\s*\((.+)\)", stdout, "checksum")
    checksum, verdict = int(found.group(1)), found.group(2)
    known = CHECKSUMS.get((method, size))
    if known is None:
        raise FomError(f"no checksum is known for the {method} method at size {size}")
    if checksum != known or verdict != "Valid":
        raise FomError(f"the checksum is {checksum} ({verdict}); {known} was expected")
    extra = {"ranks": _count(stdout, "MPI ranks"), "threads": _count(stdout, "Threads")}
    return Fom(require_positive("the rate of lookups", _count(stdout, "Total Lookups/s")), extra)


def _text(stdout: str, name: str) -> str:
    return last_match(rf"^{re.escape(name)}:\s*(\S.*)$", stdout, f"'{name}'").group(1).strip()


def _count(stdout: str, name: str) -> float:
    return float(_text(stdout, name).replace(",", ""))
