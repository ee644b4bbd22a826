"""membench latency: time of a dependent load, and what the loading cores moved meanwhile."""

from __future__ import annotations

import re

from reframe_tests.fom import membench
from reframe_tests.fom.base import FLOAT, Fom, last_match, require_positive


def parse(stdout: str) -> Fom:
    """Seconds per load; also what `membench.facts` finds, and

    `least_s`, the latency in the fastest iteration; `load_cores` and `load_b_s`, number and total
    rate of the cores that loaded memory, both 0 without them.
    """
    row = last_match(rf"^FOM latency: {FLOAT} s$", stdout, "line of the latency (FOM)")
    least = last_match(rf"^fastest iteration: {FLOAT} s$", stdout, "line of the fastest iteration")
    cores = re.search(r"^load on (\d+) cores?,", stdout, re.MULTILINE)
    load_b_s = 0.0
    if cores:
        rate = last_match(rf"^load \w+: {FLOAT} B/s$", stdout, "line of the load's rate")
        load_b_s = require_positive("the rate of the load", float(rate.group(1)))
    extra = membench.facts(stdout) | {
        "least_s": require_positive("the latency of an iteration", float(least.group(1))),
        "load_cores": float(cores.group(1)) if cores else 0.0,
        "load_b_s": load_b_s,
    }
    return Fom(require_positive("the latency", float(row.group(1))), extra)
