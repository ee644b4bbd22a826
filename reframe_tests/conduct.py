"""Starts the conductor with the parsers of the workload and the tools.

    python -m reframe_tests.conduct PLAN.json

It runs on the first node of the allocation. The parser is in the check's own file, so that the
block's workload, and no other, is imported, with ReFrame: before the first run, and only here. A
block whose outputs the check itself reads imports neither.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from conductor.block import conductor
from conductor.block.readers import Readers
from records.checkout import ROOT
from records.plan import BlockPlan
from records.sample import CounterRow
from reframe_tests.tools import TOOLS
from reframe_tests.workload import load


def readers(plan: BlockPlan) -> Readers:
    """The readers for a plan; without a parser if the check reads the outputs later."""
    if plan.read_by_check:
        return Readers("", "lower", None, _counters)
    # Import from PYTHONPATH last: what the job's modules add may be for another Python.
    added = {os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    sys.path.sort(key=(added - {str(ROOT)}).__contains__)
    record = load(plan.workload)
    unit, better = plan.fom_unit or record.unit, plan.fom_better or record.better
    return Readers(unit, better, record.parse, _counters)


def _counters(tool: str, folder: Path, ranks: int) -> list[CounterRow]:
    return TOOLS[tool].parse(folder, ranks)


def main() -> None:
    """Entry point; exit status as of `conductor.block.conductor.main`."""
    plan = BlockPlan.load(Path(sys.argv[1]))
    conductor.main(plan, partial(conductor.conduct, readers=readers(plan)))


if __name__ == "__main__":
    main()
