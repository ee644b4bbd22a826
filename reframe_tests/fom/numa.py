"""The check `numa`: membench's rate, or the time slept if there are no workers."""

from __future__ import annotations

import re

from reframe_tests.fom import membench
from reframe_tests.fom.base import FLOAT, Fom


def parse(stdout: str) -> Fom:
    """Bandwidth in B/s as in `membench.parse`; seconds if the run was a sleep."""
    slept = re.search(rf"^slept {FLOAT} s$", stdout, re.MULTILINE)
    if slept is None:
        return membench.parse(stdout)
    return Fom(float(slept.group(1)), unit="s", better="lower")
