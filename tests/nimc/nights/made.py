"""A description and a summary made by hand."""

from dataclasses import replace
from datetime import date
from pathlib import Path

from nimc.nights.description import Nightly, load
from nimc.nights.summary import NightAlarm, NightFigure, Summary
from nimc.run.runner import Failure

TEXT = """\
machine: localhost
campaign: {campaign}
window: {{start: "22:00", end: "05:00", days: [mon, tue, wed, thu, fri]}}
budget: 2
results: {results}
"""

FIGURES = [
    NightFigure("stream", "off", "fom", "B/s", "higher", 1e10, 9.9e9, 1.01e10, 6),
    NightFigure("stream", "on", "slowdown", "1", "lower", 2.0, 1.9, 2.1, 6, "memory contention"),
    NightFigure("lammps", "off", "fom", "s", "lower", 3.5, None, None, 5),
]
SUMMARY = Summary(
    nightly="box",
    night=date(2026, 11, 20),
    machine="m1",
    campaign="small",
    started_s=1795212000.0,  # 2026-11-20 22:00:00 UTC
    finished_s=1795215600.0,
    outcome="slower",
    reason="stream: slower than its reference",
    budget_node_h=2.0,
    used_node_h=0.25,
    run="/r/small-m1-1",
    cases=["stream", "lammps", "snap"],
    figures=FIGURES,
    alarms=[NightAlarm("stream", "off", "fom", "reference", "stream: slower than its reference")],
    failures=[Failure("snap", "no such binary")],
)


def nightly(
    folder: Path, text: str = "", *, name: str = "box", machine: str = "localhost", **more: str
) -> Nightly:
    """A nightly described in a file of `folder`; `more` are lines to add, key: value."""
    path = folder / f"{name}.yaml"
    known = TEXT.format(campaign=folder / "small.yaml", results=folder / "results")
    known = known.replace("localhost", machine)
    path.write_text((text or known) + "".join(f"{key}: {value}\n" for key, value in more.items()))
    return load(str(path))


def summary(**changes: object) -> Summary:
    return replace(SUMMARY, **changes)  # type: ignore[arg-type]
