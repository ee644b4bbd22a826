"""What changed in how runs were made, from one run of a campaign to the next."""

from __future__ import annotations

import json
from dataclasses import dataclass

import polars as pl

from analysis.escape import one_line
from analysis.facts import UNKNOWN


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
    last: dict[str, tuple[str, dict[str, str]]] = {}
    found = []
    for night, campaign, run, text in rows:
        text = text or "{}"
        before = last.get(campaign)
        if before and before[0] == text:
            continue
        facts = _facts(text)
        last[campaign] = (text, facts)
        old = before[1] if before else facts
        found += [
            MadeChange(night, campaign, run, name, old.get(name, UNKNOWN), facts.get(name, UNKNOWN))
            for name in sorted(old.keys() | facts.keys())
            if old.get(name) != facts.get(name)
        ]
    return found


def _facts(text: str) -> dict[str, str]:
    """The facts of one run; none if they cannot be read."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(record, dict):
        return {}
    return {one_line(str(name)): one_line(str(value)) for name, value in record.items()}
