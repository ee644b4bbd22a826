"""The control: a busy process instead of the writer, which writes nothing."""

from __future__ import annotations

import sys

from conductor.injectors.base import Injector, Writer


class _Silent:
    def parse(self, line: str) -> None:
        return None


class Spin(Injector):
    """A busy process that writes nothing."""

    name = "spin"
    writes = False
    row_s = None

    def transport(self, writer: Writer) -> str:
        """Return `none`: nothing is written."""
        return "none"

    def origin_command(self, writer: Writer) -> list[str]:
        """Return the command of an endless loop that touches almost no memory."""
        return [sys.executable, "-I", "-S", "-c", "while True: pass"]

    def parser(self, writer: Writer) -> _Silent:
        """Return a parser that finds nothing: the program prints nothing."""
        return _Silent()
