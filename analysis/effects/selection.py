"""Warnings where the choice of runs may have made a figure: repeated runs could select it."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.statistics.interval import Estimate

#: Share of rejected runs above which a warning says so.
_MANY_REJECTED = 0.1


def warnings(
    arm: str, figures: Mapping[str, tuple[Estimate | None, Estimate | None]], rejected_share: float
) -> list[str]:
    """The warnings of a treatment.

    `figures` gives what each figure is called, the figure, and the same with first attempts;
    `rejected_share` is of the runs that the figures compare.
    """
    notes = []
    for name, (used, first) in figures.items():
        if used and first and abs(first.value - used.value) > (used.high - used.low) / 2:
            notes.append(
                "warning: with the first attempt of every run, accepted or rejected, the"
                f" {name} is {first.value:.4g} instead of {used.value:.4g}, which differs by"
                " more than half the interval's width"
            )
    if rejected_share > _MANY_REJECTED:
        notes.append(
            f"warning: {rejected_share:.0%} of the runs of {arm} and of what it is compared with"
            f" were rejected, more than {_MANY_REJECTED:.0%}"
        )
    return notes
