"""What follows a night's measurement: history, alarms on it, pages."""

from __future__ import annotations

from pathlib import Path

from campaigns.nightly.description import Nightly
from campaigns.nightly.summary import NightAlarm


def follow(_nightly: Nightly, _run: Path) -> list[NightAlarm]:
    """Alarms that the machine's own history raises on this run."""
    return []
