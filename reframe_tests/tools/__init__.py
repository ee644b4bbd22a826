"""The programs that wrap the application and count, behind one interface.

Each module of this folder that has a `TOOL` is a tool. A module with several groups of events has
`TOOLS` instead; each group is a level, such as `perf_stat:dram`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from reframe_tests.tools.base import Tool

#: Level of the factor `tool` without a tool.
NONE = "none"


def _tools() -> Iterator[Tool]:
    """Yield the tools of all modules of this folder."""
    for entry in iter_modules(__path__):
        module = import_module(f"{__name__}.{entry.name}")
        if hasattr(module, "TOOLS"):
            yield from module.TOOLS
        elif hasattr(module, "TOOL"):
            yield module.TOOL


#: Name -> tool.
TOOLS: dict[str, Tool] = {tool.name: tool for tool in _tools()}
#: Levels of the factor `tool`.
NAMES = (NONE, *TOOLS)
