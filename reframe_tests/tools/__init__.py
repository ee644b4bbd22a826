"""The programs that wrap the application and count, behind one interface.

Each module of this folder that has a `TOOL` is a tool. One with several groups of events has
`TOOLS` instead, a level each: `perf_stat:dram`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from reframe_tests.tools.base import Tool

#: Level of the factor `tool` without a tool.
NONE = "none"
_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
_TOOLS: list[Tool] = [
    tool
    for module in _MODULES
    for tool in getattr(module, "TOOLS", [module.TOOL] if hasattr(module, "TOOL") else [])
]
#: Name -> tool.
TOOLS: dict[str, Tool] = {tool.name: tool for tool in _TOOLS}
#: Levels of the factor `tool`.
NAMES = (NONE, *TOOLS)
