"""The block of runs for which a session of ReFrame is started."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from records.block_plan import BlockPlan


def block_of(argv: Sequence[str]) -> BlockPlan:
    """Return the plan in the file that the command line names: `-S CHECK.block_file=FILE`."""
    (setting,) = (word for flag, word in pairwise(argv) if flag == "-S")
    name, _, file = setting.partition("=")
    assert name.endswith(".block_file")
    return BlockPlan.load(Path(file))
