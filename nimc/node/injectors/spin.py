"""The control: a busy process instead of the writer, which writes nothing."""

from __future__ import annotations

import sys
from typing import Literal

from nimc.node.injectors.base import Holds, RowSource, Writer
from nimc.records.sample import Direction


class _Silent:
    def parse(self, line: str) -> None:
        return None


class Spin:
    """See `base.Injector`."""

    name = "spin"
    direction: Direction = "write"
    writes = False
    rates: Literal["full", "any"] = "full"
    paced_by: Literal["program", "agent"] = "program"
    row_s: float | None = None
    holds: Holds = "anytime"

    def transport(self, writer: Writer) -> str:
        """Nothing is written."""
        return "none"

    def target_command(self, writer: Writer) -> None:
        """There is no passive side."""
        return

    def origin_command(self, writer: Writer) -> list[str]:
        """Computes, and touches almost no memory."""
        return [sys.executable, "-S", "-c", "while True: pass"]

    def environment(self, writer: Writer) -> dict[str, str]:
        """Nothing."""
        return {}

    def row_source(self, writer: Writer) -> RowSource:
        """The share of a core that it used, instead of a rate."""
        return "cpu"

    def freezes_target(self, writer: Writer) -> bool:
        """There is no passive side."""
        return False

    def parser(self, writer: Writer) -> _Silent:
        """Prints nothing."""
        return _Silent()

    def own_binding(self) -> str:
        """Nothing."""
        return "none"

    def missing(self) -> str | None:
        """It needs only Python."""
        return None
