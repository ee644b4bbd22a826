"""Daly's estimate of the optimum time between two checkpoints.

An application works for `interval`, then writes a checkpoint for `write`, and so on. Interrupts
are a Poisson process with mean time M between them, and each returns to the last checkpoint. The
expected time per unit of work is proportional to
(exp((interval + write) / M) - 1) / interval, which is smallest for

    exp(-(interval + write) / M) = 1 - interval / M.

Expanded in sqrt(write / 2M) this gives the closed form of J. T. Daly, "A higher order estimate of
the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006)
303-312, which Groves, Grant and Arnold (2016) use (section VI).
"""

from __future__ import annotations

import math

from analysis.errors import InputError


def in_range(write_s: float, mtti_s: float) -> bool:
    """Whether the series is valid; beyond, `optimum_interval_s` is a convention."""
    return write_s < 2 * mtti_s


def optimum_interval_s(write_s: float, mtti_s: float) -> float:
    """Work between two checkpoints that wastes the least time, seconds, without the write itself.

    `write_s` is the duration of one checkpoint, `mtti_s` the mean time to interrupt of the whole
    job. The series is valid for `write_s` < 2 `mtti_s`; beyond it a checkpoint costs more than it
    saves, and the estimate is `mtti_s`, as in the paper. Within 1 % of the exact optimum for
    `write_s` up to `mtti_s` / 2. Raises InputError for values not above 0.
    """
    for name, value in (("write", write_s), ("mtti", mtti_s)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name}: {value:g} s is not a duration; allowed: above 0")
    if not in_range(write_s, mtti_s):
        return mtti_s
    ratio = write_s / (2 * mtti_s)
    series = 1 + math.sqrt(ratio) / 3 + ratio / 9
    return math.sqrt(2 * write_s * mtti_s) * series - write_s
