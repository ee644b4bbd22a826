"""Nobody at work: how long that took. What the writers did meanwhile is the figure of interest."""

from __future__ import annotations

from reframe_tests.fom.base import FLOAT, Fom, last_match, require_positive


def parse(stdout: str) -> Fom:
    """Seconds slept."""
    slept = last_match(rf"^slept {FLOAT} s$", stdout, "line of the time slept")
    return Fom(require_positive("the time slept", float(slept.group(1))))
