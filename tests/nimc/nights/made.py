"""A made summary of a night."""

from dataclasses import replace
from datetime import date

from nimc.nights.summary import NightAlarm, Summary
from nimc.run.runner import Failure


def figure(*values: object) -> dict[str, object]:
    names = ("case", "arm", "quantity", "unit", "better", "value", "low", "high", "verdict")
    return dict(zip(names, values, strict=True))


FIGURES = [
    figure("stream", "off", "fom", "B/s", "higher", 1e10, 9.9e9, 1.01e10, None),
    figure("stream", "on", "slowdown", "1", "lower", 2.0, 1.9, 2.1, "memory contention"),
    figure("lammps", "off", "fom", "s", "lower", 3.5, None, None, None),
]
SUMMARY = Summary(
    night=date(2026, 11, 20),
    machine="m1",
    campaign="small",
    started_s=1795212000.0,  # 2026-11-20 22:00:00 UTC
    finished_s=1795215600.0,
    outcome="slower",
    reason="stream: slower than its reference",
    run="/r/small-m1-1",
    figures=FIGURES,
    alarms=[
        NightAlarm(
            case="stream",
            arm="off",
            quantity="fom",
            source="reference",
            text="stream: slower than its reference",
        )
    ],
    failures=[Failure("snap", "no such binary")],
)


def summary(**changes: object) -> Summary:
    return replace(SUMMARY, **changes)  # type: ignore[arg-type]
