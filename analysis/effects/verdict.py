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
    """The verdict on the effect of `row`, in which all other fields are filled in.

    `shown`: the statements that the pairs of the effect show (`analysis.effects.statements`).
    `least_pairs`: the smallest number of pairs that allows a verdict. `same_host`: whether writers
    run on the application's host.

    Whether memory is the cause is decided later (`analysis.effects.annotations.name_contention`).
    `analysis.effects.power` computes what plans promise by the same rules, so change both together.
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
    # A speed-up must meet a stricter condition than a loss: the mean's whole interval is below 1.
    if "faster" in shown and slowdown.high < 1 and mean.high < 1:
        return Verdict.SPEED_UP
    # 'No effect' requires that the intervals of the mean and of the repeated baseline reach into
    # the margin. A mean outside the margin is an effect, although not on the typical run. A
    # repeated baseline outside the margin shows that the baseline drifts.
    lowest, highest = 1 / (1 + row.margin), 1 + row.margin
    is_outside = any(
        interval.low > highest or interval.high < lowest for interval in (mean, repeatability)
    )
    return Verdict.NO_EFFECT if "within" in shown and not is_outside else Verdict.INCONCLUSIVE


def emulation_caveats(transports: pl.Series) -> list[str]:
    """The caveat of each emulated transport in the column (`records.machine.transport_notes`)."""
    return transport_notes.caveats(transports.drop_nulls().unique(maintain_order=True))
