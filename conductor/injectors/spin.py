"""The control, which is a busy process in place of the writer. It writes nothing."""

from __future__ import annotations

import sys

from conductor.injectors.base import Injector, Writer


class _NoLines:
    def parse(self, line: str) -> None:
        return None


class Spin(Injector):
    """A busy process that writes nothing."""

    name = "spin"
    writes = False
    row_s = None

    def transport(self, writer: Writer) -> str:
        """Return `none`, since nothing is written."""
        return "none"

    def origin_command(self, writer: Writer) -> list[str]:
        """Return a command that loops endlessly and touches almost no memory."""
        return [sys.executable, "-I", "-S", "-c", "while True: pass"]

    def parser(self, writer: Writer) -> _NoLines:
        """Return a parser that finds nothing, since the program prints nothing."""
        return _NoLines()
