"""`nimc` with a stand-in for the report's page, as most of the time of a small run is its figures.

FAKE with `page` among its words: the page is never done.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from nimc.cli import main as cli

if TYPE_CHECKING:
    from analysis.report.data import RunData


def render(runs: Sequence[RunData]) -> str:
    while "page" in os.environ.get("FAKE", "").split(","):
        time.sleep(1)
    return f"<title>{len(runs)} runs</title>\n"


def main() -> None:
    page = ModuleType("analysis.report.page")
    page.render = render  # type: ignore[attr-defined]
    sys.modules[page.__name__] = page
    cli.main()
