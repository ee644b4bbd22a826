"""Progress of a case, read from the samples on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.arms import arm_of
from analysis.errors import InputError
from campaigns.planning.plan import next_block
from campaigns.request.schema import Pairs

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray


@dataclass(frozen=True)
class CaseState:
    """Progress of a case."""

    #: Treatment -> log times of its complete pairs, an array a block (`analysis.pairs.log_times`).
    log_times: dict[str, list[NDArray[np.float64]]]
    #: Index of the next block; indices are never reused.
    next_block: int
    #: Pairs in which all runs of some treatment were rejected.
    rejected: int = 0
    #: Why the last rejected run was rejected; None if there is none.
    last_reason: str | None = None

    @property
    def pairs(self) -> int:
        """Complete pairs of the treatment with the fewest; each may lack others."""
        return min(sum(map(len, blocks)) for blocks in self.log_times.values())

    def missing(self, asked: Pairs, rejected_before: int = 0) -> int:
        """Pairs of the next block; 0 if the case is precise enough, or too many were rejected.

        As many pairs may be rejected as `pairs.cap` allows to be accepted, so a machine on which
        every run is rejected ends with `too few pairs` instead of never. Those that were rejected
        before this session do not count, so that the next one tries again.
        """
        if self.rejected - rejected_before >= asked.most:
            return 0
        precise = self.pairs >= asked.floor and self._precise(asked)
        return next_block(self.pairs, asked, precise=precise)

    def _precise(self, asked: Pairs) -> bool:
        """Whether all effects (all treatments, if there are none) have narrow intervals."""
        from analysis.statistics.stopping import enough

        effects = [name for name in self.log_times if not arm_of(name).silent] or list(
            self.log_times
        )
        return all(
            enough(self.log_times[name], asked.floor, asked.most, asked.precision)
            for name in effects
        )


def case_state(run: Path, case: str, treated: Sequence[str]) -> CaseState:
    """Read the progress of a case; `treated` are its treatments that have a baseline."""
    started = [int(p.name) for p in (run / "logs" / case).glob("[0-9]*") if p.name.isdigit()]
    file = run / "samples" / f"{case}.jsonl"
    if not file.exists() or not file.stat().st_size:
        return CaseState({name: [] for name in treated}, max(started, default=-1) + 1)

    import polars as pl

    from analysis.columns import read_samples
    from analysis.pairs import judged, log_times, pair_table

    try:
        frame = judged(read_samples([file]).frame)
    except InputError as error:
        raise InputError(
            f"{error}; to continue this run, remove that line from the file; to start a new one,"
            " give --fresh"
        ) from error
    pairs = pair_table(frame)
    reasons = frame.filter(status="rejected")["reason"].drop_nulls()
    return CaseState(
        log_times={name: log_times(pairs.filter(pl.col("arm") == name)) for name in treated},
        next_block=max([-1, *started, *frame["block"].unique().to_list()]) + 1,
        rejected=_rejected_pairs(frame),
        last_reason=str(reasons[-1]) if len(reasons) else None,
    )


def _rejected_pairs(judged: pl.DataFrame) -> int:
    """Pairs in which all runs of some treatment were rejected."""
    import polars as pl

    runs = judged.filter(pl.col("pair") >= 0).group_by("block", "pair", "arm")
    arms = runs.agg(
        counts=(pl.col("status") == "counts").any(),
        rejected=(pl.col("outcome") == "rejected").any(),
    )
    return arms.filter(~pl.col("counts") & pl.col("rejected")).n_unique(["block", "pair"])
