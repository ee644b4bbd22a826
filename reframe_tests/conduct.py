"""Starts the conductor with the parsers of the block's workload and of the tools.

    python -m reframe_tests.conduct PLAN.json

The conductor makes the runs of a block, which is one job. It runs on the first node of the
allocation. Before the first run, this program imports the block's workload, and ReFrame with it,
since the parser is in the file of the check. If the check itself reads the outputs later, neither
is imported.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from conductor.block import conductor
from conductor.block.readers import Readers
from records.block_plan import BlockPlan
from records.sample import CounterRow
from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import RANK_VARIABLES
from reframe_tests.workload import load_workload


def readers(plan: BlockPlan) -> Readers:
    """Return the readers for a plan, without a parser if the check reads the outputs later."""
    if plan.read_by_check:
        return Readers(unit="", better="lower", fom=None, counters=_read_counters)
    workload = load_workload(plan.workload)
    unit = plan.fom_unit or workload.unit
    better = plan.fom_better or workload.better
    return Readers(unit=unit, better=better, fom=workload.parse, counters=_read_counters)


def _read_counters(tool: str, folder: Path, ranks: int) -> list[CounterRow]:
    return TOOLS[tool].parse(folder, ranks)


def main() -> None:
    """Conduct the block. Exits with the status of `conductor.block.conductor.main`.

    Variables of ranks are removed from the environment. They are those of an interactive step in
    which a user started `nimc`, and another launcher would leave them to all ranks.
    """
    for name in RANK_VARIABLES:
        os.environ.pop(name, None)
    plan = BlockPlan.load(Path(sys.argv[1]))
    conductor.main(plan, partial(conductor.conduct, plan, readers(plan)))


if __name__ == "__main__":
    main()
