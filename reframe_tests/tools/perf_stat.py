"""perf stat: kernel and hardware counters of each rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reframe_tests.tools.base import CounterRow


class PerfStat:
    """See `base.Tool`."""

    name = "perf_stat"

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See the interface."""
        return [*launcher, *application]

    def environment(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def parse(self, folder: Path) -> list[CounterRow]:
        """See the interface."""
        return []

    def missing(self) -> str | None:
        """See the interface."""
        return None
