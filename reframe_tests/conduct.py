"""Starts the conductor with the parsers of the workloads and the tools.

    python -m reframe_tests.conduct PLAN.json

Standard library only: it runs on the first node of the allocation.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nimc.node import conductor
from nimc.node.readers import CountersError, Readers
from nimc.records.plan import BlockPlan
from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import ToolError
from reframe_tests.workloads import WORKLOADS


def readers(plan: BlockPlan) -> Readers:
    """The readers for a plan; without a parser if the check reads the outputs later."""
    if plan.read_by_check:
        return Readers("", "lower", None, _counters)
    row = WORKLOADS[plan.workload]
    return Readers(row.unit, row.better, row.parse, _counters)


def _counters(tool: str, folder: Path, ranks: int) -> list[dict[str, Any]]:
    try:
        rows = TOOLS[tool].parse(folder, ranks)
    except ToolError as error:
        raise CountersError(f"{tool}: {error}") from None
    return [{"tool": tool, **asdict(row)} for row in rows]


def main() -> None:
    """Entry point; exit status as of `nimc.node.conductor.main`."""
    plan = BlockPlan.load(Path(sys.argv[1]))
    conductor.main(plan, readers(plan))


if __name__ == "__main__":
    main()
