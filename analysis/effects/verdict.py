"""The verdict on an effect, from its figures and the statements that its pairs show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.effects.result import Result, Verdict
from analysis.effects.statements import Statements
from records.machine import transport_notes

if TYPE_CHECKING:
    import polars as pl


def verdict_of(
    row: Result, shown: Statements, least_pairs: int, *, same_host: bool = False
) -> Verdict:
    """The verdict on the effect of `row`, whose other fields are filled in.

    `shown`: the statements that its pairs show (`analysis.effects.statements`). Whether memory is
    the cause is decided later (`analysis.effects.annotations.name_contention`). What plans promise
    is computed by the same rules in `analysis.effects.power`: change both together.
    """
    slowdown = row.slowdown
    mean = row.mean
    repeatability = row.noise_floor
    if slowdown is None or mean is None or row.pairs < least_pairs:
        return Verdict.TOO_FEW_PAIRS
    if row.writer_rate_b_s is None:
        return Verdict.NO_WRITES
    if repeatability is None:
        return Verdict.NO_NOISE_FLOOR
    if "unstable" in shown:
        return Verdict.BASELINE_UNSTABLE
    if "slower" in shown and slowdown.low > 1 and mean.value > 1:
        if same_host and row.over_control is None:
            return Verdict.NO_CONTROL
        if row.over_control and "above_control" not in shown:
            return Verdict.NOT_ABOVE_CONTROL
        if row.emulated:
            return Verdict.EMULATED
        return Verdict.SLOWER
    # A speed-up asks for more than a slowdown: the mean's whole interval lies beyond 1, too.
    if "faster" in shown and slowdown.high < 1 and mean.high < 1:
        return Verdict.SPEED_UP
    # A mean outside the margin is an effect, though not on the typical run. A repeated baseline
    # outside the margin shows that the baseline drifts.
    lowest, highest = 1 / (1 + row.margin), 1 + row.margin
    is_outside = any(
        interval.low > highest or interval.high < lowest for interval in (mean, repeatability)
    )
    return Verdict.NO_EFFECT if "within" in shown and not is_outside else Verdict.INCONCLUSIVE


def emulation_caveats(transports: pl.Series) -> list[str]:
    """The caveat of each emulated transport, once (`records.machine.transport_notes`)."""
    return transport_notes.caveats(transports.drop_nulls().unique(maintain_order=True))
