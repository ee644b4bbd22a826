"""What a night measured, and what the site's references say of it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from analysis.arms import BASELINE
from analysis.history.extract import nights_frame
from analysis.report.data import RunData, load_run
from campaigns.nightly.summary import NightAlarm, NightFigure

_FIELDS = [each.name for each in fields(NightFigure)]


def read_run(run: Path) -> RunData:
    """The run, with its faults if it has any: whoever stores it refuses them."""
    return load_run(run, force=True)


def figures_of(data: RunData) -> list[NightFigure]:
    """Every quantity that is watched."""
    return [NightFigure(**row) for row in nights_frame(data).select(_FIELDS).iter_rows(named=True)]


def slower_than_reference(data: RunData) -> list[NightAlarm]:
    """Baselines that fall short of the site's references; each once."""
    rows = {row.case: row for row in data.results if row.slower_than_reference}
    return [
        NightAlarm(case, BASELINE, "fom", "reference", f"{case}: {row.notes[0]}")
        for case, row in rows.items()
    ]
