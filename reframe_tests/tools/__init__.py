"""The programs that wrap the application and count, behind one interface.

Each module of this folder that has a `TOOL` is a tool; one with `TOOLS` is several.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from reframe_tests.tools.base import Tool

#: Level of the factor `tool` without a tool.
NONE = "none"
_MODULES = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
#: Name -> tool.
TOOLS: dict[str, Tool] = {
    tool.name: tool
    for each in _MODULES
    for tool in getattr(each, "TOOLS", (each.TOOL,) if hasattr(each, "TOOL") else ())
}
#: Levels of the factor `tool`.
NAMES = (NONE, *TOOLS)
