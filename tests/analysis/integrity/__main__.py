"""Counts how many seeded edits of finished runs are seen: `python -m tests.analysis.integrity`.

An edit passes if nothing is refused although a figure, an interval, a verdict or a sentence of the
page changes. Checked is what every command checks, but neither
chain nor kept outputs: an editor can make both to fit.
"""

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Literal, NamedTuple

from analysis.report.data import load_run
from analysis.report.page import render
from nimc.base.errors import InputError
from tests.analysis.integrity.between import made_between
from tests.analysis.integrity.edits import KINDS, Kind, Run
from tests.captures import RUN_QUICK

#: `seen`; nothing that is shown changes; or there is nothing of the kind in the run to be edited.
Outcome = Literal["seen", "passes", "without consequence", "not there"]

EDITS = 300


class Base(NamedTuple):
    """A run to be edited."""

    name: str
    files: Run
    #: Its results and its page.
    shown: tuple[object, str]


def bases(folder: Path) -> list[Base]:
    """The recorded run on one host, and the made one between nodes."""
    return [
        Base(path.name, Run.read(path), shown(path)) for path in (RUN_QUICK, made_between(folder))
    ]


def shown(run: Path) -> tuple[object, str]:
    """All that its report tells, without the name of the folder. Raises InputError if refused."""
    found = load_run(run)
    return found.document(), render([found]).replace(str(run.parent), "")


def outcome(base: Base, kind: Kind, seed: int, folder: Path) -> tuple[Outcome, str]:
    """What becomes of an edit, and the first fault."""
    edited = deepcopy(base.files)
    try:
        kind.edit(edited, random.Random(seed))
    except (IndexError, KeyError, TypeError):
        return "not there", ""
    if edited == base.files:
        return "not there", ""
    run = edited.write(folder / f"{kind.name.replace('/', ' ')} {seed}" / base.name)
    try:
        now = shown(run)
    except InputError as error:
        return "seen", (str(error).splitlines() * 2)[1]
    return ("without consequence" if now == base.shown else "passes"), ""


def every(edits: int, folder: Path) -> Iterator[tuple[Kind, Base, int]]:
    """So many edits: all kinds by turns, of both runs by turns."""
    both = bases(folder)
    for seed in range(edits):
        yield KINDS[seed % len(KINDS)], both[seed // len(KINDS) % 2], seed


def main() -> int:
    """Print what passes, and the counts."""
    counts, kinds = Counter[Outcome](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for kind, base, seed in every(EDITS, Path(folder)):
            found, line = outcome(base, kind, seed, Path(folder))
            counts[found] += 1
            if "-v" in sys.argv:
                print(f"{found:20} {base.name[:7]} {kind.name}: {line[-150:]}")
            if found == "passes":
                kinds[kind.name] += 1
    for name, count in kinds.items():
        print(f"passes {count} times: {name}")
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
