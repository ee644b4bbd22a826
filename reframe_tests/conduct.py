"""Starts the conductor with the parsers of the block's workload and of the tools.

    python -m reframe_tests.conduct PLAN.json

It runs on the first node of the allocation. A workload's parser is in the file of its check, so
ReFrame is imported with it. Only the workload of the block is imported, before the first run, and
only here. If the check reads the outputs itself, neither the workload nor ReFrame is imported.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from conductor.block import conductor
from conductor.block.readers import Readers
from records.block_plan import BlockPlan
from records.checkout import ROOT
from records.sample import CounterRow
from reframe_tests.tools import TOOLS
from reframe_tests.workload import load


def readers(plan: BlockPlan) -> Readers:
    """The readers for a plan. If the check reads the outputs later, they have no parser."""
    if plan.read_by_check:
        return Readers("", "lower", None, _read_counters)
    # PYTHONPATH is searched last, since the job's modules may add packages for another Python.
    pythonpath = {
        os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    }
    sys.path.sort(key=(pythonpath - {str(ROOT)}).__contains__)
    workload = load(plan.workload)
    unit, better = plan.fom_unit or workload.unit, plan.fom_better or workload.better
    return Readers(unit, better, workload.parse, _read_counters)


def _read_counters(tool: str, folder: Path, ranks: int) -> list[CounterRow]:
    return TOOLS[tool].parse(folder, ranks)


def main() -> None:
    """Entry point; exits with the status of `conductor.block.conductor.main`."""
    plan = BlockPlan.load(Path(sys.argv[1]))
    conductor.main(plan, partial(conductor.conduct, plan, readers(plan)))


if __name__ == "__main__":
    main()
