"""What changed in how runs were made, from one run of a campaign to the next."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from analysis.facts import UNKNOWN
from analysis.history.blame import facts_in


@dataclass(frozen=True)
class MadeChange:
    """A fact that differs from the run before."""

    night: str
    campaign: str
    run: str
    name: str
    before: str
    after: str


def made_changes(runs: pl.DataFrame) -> list[MadeChange]:
    """The changes in `runs` (`tables.RUNS`), in order of time. Facts come from the runs' `made`."""
    started = pl.from_epoch(pl.col("started_s").cast(pl.Int64)).dt.date().cast(pl.String)
    rows = runs.sort("started_s").select(started, "campaign", "run", "made").iter_rows()
    last: dict[str, tuple[str | None, dict[str, str]]] = {}
    found = []
    for night, campaign, run, text in rows:
        before = last.get(campaign)
        if before and before[0] == text:
            continue
        facts = facts_in(text)
        last[campaign] = (text, facts)
        old = before[1] if before else facts
        found += [
            MadeChange(night, campaign, run, name, old.get(name, UNKNOWN), facts.get(name, UNKNOWN))
            for name in sorted(old.keys() | facts.keys())
            if old.get(name) != facts.get(name)
        ]
    return found
