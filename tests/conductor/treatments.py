"""Treatments of the standard arms, made without a ReFrame check."""

from collections.abc import Mapping, Sequence
from typing import Any

from records.arms import ARMS, BASELINE
from records.treatment import Start, Treatment, Writes


def treatments(
    arms: Sequence[str],
    command: Sequence[str],
    writes: Mapping[str, Any] = {},
    scheduled: Mapping[str, int] = {},
    **start: Any,
) -> list[Treatment]:
    """Return one treatment per arm; all start the application in the same way.

    `scheduled`: arm -> number of writers at a time under a timetable.
    """
    fields: dict[str, Any] = {"injector": "ucx", "message_b": 65536, **writes}
    return [
        Treatment(
            name=arm,
            start=Start(command=list(command), **start),
            writes=_writes(arm, fields, scheduled),
            role=ARMS[arm].role,
            baseline=None if arm == BASELINE else BASELINE,
        )
        for arm in arms
    ]


def _writes(arm: str, fields: dict[str, Any], scheduled: Mapping[str, int]) -> Writes | None:
    row = ARMS[arm]
    if row.control_injector:
        return Writes(injector=row.control_injector, message_b=0)
    return None if row.silent else Writes(**fields, scheduled=scheduled.get(arm))
