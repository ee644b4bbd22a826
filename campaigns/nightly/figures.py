"""What a night measured, and what the site's references say of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analysis.arms import BASELINE
from analysis.report.data import RunData, load_run
from analysis.statistics.interval import median_interval
from campaigns.nightly.summary import NightAlarm, NightFigure


def read_run(run: Path) -> RunData | None:
    """The run; None while there is no sample."""
    if not any((run / "samples").glob("*.jsonl")):
        return None
    return load_run(run, force=True)


def figures_of(data: RunData) -> list[NightFigure]:
    """Figure of merit of each baseline, and slowdown of each treatment with writers."""
    return [*_baselines(data), *_slowdowns(data)]


def slower_than_reference(data: RunData) -> list[NightAlarm]:
    """Baselines that fall short of the site's references; each once."""
    rows = {row.case: row for row in data.results if row.slower_than_reference}
    return [
        NightAlarm(case, BASELINE, "fom", "reference", f"{case}: {row.notes[0]}")
        for case, row in rows.items()
    ]


def _baselines(data: RunData) -> Iterator[NightFigure]:
    counts = data.samples.filter(status="counts", role="baseline")
    for key, part in counts.group_by("case", "arm", maintain_order=True):
        foms = part["fom"].drop_nulls().to_list()
        if not foms:
            continue
        found = median_interval(foms)
        yield NightFigure(
            case=str(key[0]),
            arm=str(key[1]),
            quantity="fom",
            unit=str(part["fom_unit"][0]),
            better=str(part["fom_better"][0]),
            value=float(part["fom"].median()),  # type: ignore[arg-type]
            low=found.low if found else None,
            high=found.high if found else None,
            count=len(foms),
        )


def _slowdowns(data: RunData) -> Iterator[NightFigure]:
    for row in data.results:
        if row.role == "effect" and row.slowdown is not None:
            yield NightFigure(
                case=row.case,
                arm=row.arm,
                quantity="slowdown",
                unit="1",
                better="lower",
                value=row.slowdown,
                low=row.slowdown_low,
                high=row.slowdown_high,
                count=row.pairs,
                verdict=str(row.verdict),
            )
