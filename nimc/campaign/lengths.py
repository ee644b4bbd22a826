"""How long the runs of each case took, in an earlier run of the same campaign on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Lengths:
    """Lengths of runs, and where they were measured."""

    run: str | None = None
    #: Case -> seconds from the start of one accepted run to that of the next.
    of_case: Mapping[str, float] = field(default_factory=dict)


def lengths_of(samples: pl.DataFrame) -> dict[str, float]:
    """Case -> seconds that each accepted run takes, with its lead-in and rejected attempts."""
    import polars as pl  # takes 0.2 s, and most plans have no earlier run

    blocks = samples.group_by("case", "block").agg(
        over_s=pl.col("start_s").max() - pl.col("start_s").min(),
        runs=pl.len(),
        accepted=(pl.col("outcome").cast(pl.String) == "kept").sum(),
    )
    cases = blocks.group_by(pl.col("case").cast(pl.String)).agg(
        pl.col("over_s", "runs", "accepted").sum(), starts=(pl.col("runs") - 1).sum()
    )
    measured = cases.filter((pl.col("starts") > 0) & (pl.col("accepted") > 0))
    a_run_s = pl.col("over_s") / pl.col("starts") * pl.col("runs") / pl.col("accepted")
    return dict(measured.select("case", a_run_s).iter_rows())
