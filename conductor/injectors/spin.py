"""The control: a busy process instead of the writer, which writes nothing."""

from __future__ import annotations

import sys

from conductor.injectors.base import Injector, Writer


class _Silent:
    def parse(self, line: str) -> None:
        return None


class Spin(Injector):
    """A control."""

    name = "spin"
    writes = False
    row_s = None

    def transport(self, writer: Writer) -> str:
        """Nothing is written."""
        return "none"

    def origin_command(self, writer: Writer) -> list[str]:
        """Computes, and touches almost no memory."""
        return [sys.executable, "-I", "-S", "-c", "while True: pass"]

    def parser(self, writer: Writer) -> _Silent:
        """Prints nothing."""
        return _Silent()
