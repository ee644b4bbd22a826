"""How far a case is, read from its samples: what counts is what is on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.arms import arm_of
from campaigns.planning.plan import next_block
from campaigns.request.schema import Pairs

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class CaseState:
    """What a case has so far."""

    #: Treatment -> ratios of its complete pairs to its baseline, a list a block.
    ratios: dict[str, list[list[float]]]
    #: Index that the next block gets: none is ever used twice.
    next_block: int
    #: Pairs in which all runs of some treatment were rejected.
    lost: int = 0
    #: Why the last run that does not count was refused; None where all count.
    last_reason: str | None = None

    @property
    def pairs(self) -> int:
        """Pairs of the treatment that has fewest: each may have lost other ones."""
        return min(sum(map(len, blocks)) for blocks in self.ratios.values())

    def missing(self, asked: Pairs) -> int:
        """Pairs of the next block; 0 when the case is known well enough, or too many are lost.

        As many pairs may be lost as the cap allows to count: a machine on which nothing holds
        still ends with `too few pairs`, not never.
        """
        if self.lost >= asked.most:
            return 0
        precise = self.pairs >= asked.floor and self._precise(asked)
        return next_block(self.pairs, asked, precise=precise)

    def _precise(self, asked: Pairs) -> bool:
        """Whether no effect (where there is none: no treatment) needs a narrower interval."""
        from analysis.statistics.stopping import enough

        effects = [name for name in self.ratios if not arm_of(name).silent] or list(self.ratios)
        return all(
            enough(self.ratios[name], asked.floor, asked.most, asked.precision) for name in effects
        )


def case_state(run: Path, case: str, treated: Sequence[str]) -> CaseState:
    """Read how far a case of a run is; `treated` are its treatments that have a baseline."""
    started = [int(p.name) for p in (run / "logs" / case).glob("[0-9]*") if p.name.isdigit()]
    file = run / "samples" / f"{case}.jsonl"
    if not file.exists() or not file.stat().st_size:
        return CaseState({name: [] for name in treated}, max(started, default=-1) + 1)

    from analysis.columns import read_samples
    from analysis.pairs import judged, pair_table, ratio_blocks

    frame = judged(read_samples([file]).frame)
    pairs = pair_table(frame)
    refused = frame.filter(status="rejected")["reason"].drop_nulls()
    return CaseState(
        ratios={name: ratio_blocks(pairs, case, name) for name in treated},
        next_block=max([-1, *started, *frame["block"].unique().to_list()]) + 1,
        lost=_lost(frame),
        last_reason=str(refused[-1]) if len(refused) else None,
    )


def _lost(judged: pl.DataFrame) -> int:
    """Pairs in which runs of a treatment were rejected and none of them counts."""
    import polars as pl

    runs = judged.filter(pl.col("pair") >= 0).group_by("block", "pair", "arm")
    arms = runs.agg(
        counts=(pl.col("status") == "counts").any(),
        rejected=(pl.col("outcome") == "rejected").any(),
    )
    return arms.filter(~pl.col("counts") & pl.col("rejected")).n_unique(["block", "pair"])
