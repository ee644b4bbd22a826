"""The check `numa`: membench's rate, or, where no worker runs, the time slept."""

from __future__ import annotations

import re

from reframe_tests.fom import membench
from reframe_tests.fom.base import FLOAT, Fom


def parse(stdout: str) -> Fom:
    """Bandwidth in B/s as `membench.parse` has it; seconds where the run was a sleep."""
    slept = re.search(rf"^slept {FLOAT} s$", stdout, re.MULTILINE)
    if slept is None:
        return membench.parse(stdout)
    return Fom(float(slept.group(1)), unit="s", better="lower")
