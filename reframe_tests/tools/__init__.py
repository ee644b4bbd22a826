"""The programs that wrap the application and count, behind one small interface."""

from __future__ import annotations

from reframe_tests.tools.base import Tool
from reframe_tests.tools.perf_stat import PerfStat

#: Level of the factor `tool` that wraps nothing.
NONE = "none"
#: Name -> tool.
TOOLS: dict[str, Tool] = {tool.name: tool for tool in (PerfStat(),)}
#: Levels of the factor `tool`.
NAMES = (NONE, *TOOLS)
