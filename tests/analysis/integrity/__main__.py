"""Counts how many seeded edits of finished runs are seen: `python -m tests.analysis.integrity`.

An editor knows the files: digests, chain and head are computed again after every edit. Counted is
what every command checks, and what `nimc verify` adds; also if the heads in ReFrame's reports are
deleted. An edit has a consequence if results, advice
or page change; names of files, digests and the head do not count.
"""

import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from analysis.remedies.advice import advise
from analysis.report.data import load_run
from analysis.report.page import render
from nimc.base.errors import InputError
from nimc.run.verify import verify
from tests.analysis.integrity.between import made_between
from tests.analysis.integrity.completed import recorded_quick
from tests.analysis.integrity.edits import KINDS, Kind
from tests.analysis.integrity.files import Run

EDITS = 80
_SHA256 = re.compile(r"\b[0-9a-f]{64}\b")


class Base(NamedTuple):
    """A run to be edited."""

    name: str
    files: Run
    head: str | None
    shown: tuple[Any, ...]


class Outcome(NamedTuple):
    """Whether an edit is seen; if not by all of these, whether anything that is shown changes."""

    by_all: bool
    by_verify: bool
    #: If ReFrame's reports have no head.
    by_verify_without_heads: bool
    #: By `verify` with the head that was kept of the run.
    by_head: bool
    changes: bool
    line: str


def base_of(run: Path) -> Base:
    return Base(run.name, Run.read(run), verify(run).head, shown(run))


def shown(run: Path) -> tuple[Any, ...]:
    """What a reader sees of a run: results, advice, page. Raises InputError if it is refused."""
    found = load_run(run)
    page = render([found]).replace(str(run.parent), "")
    results = found.document() | {"head": None}
    return results, advise([found]).as_dict(), _SHA256.sub("", page)


def outcome(base: Base, kind: Kind, seed: int, folder: Path) -> Outcome | None:
    """What becomes of an edit; None if there is nothing of the kind in the run."""
    edited = deepcopy(base.files)
    try:
        kind.edit(edited, random.Random(seed))
    except (IndexError, KeyError, TypeError):
        return None
    if edited == base.files:
        return None
    place = folder / kind.name.replace("/", " ") / str(seed)
    run = edited.write(place / edited.header["run"])
    found = verify(run, base.head)
    faults = [each.text for each in found.findings if each.kind != "unproven"]
    of_head = [line for line in faults if line.endswith(", as given")]
    line = next((line for line in faults if line not in of_head), "")
    try:
        load_run(run)
    except InputError:
        return Outcome(True, bool(line), True, bool(faults), True, line)
    for report in edited.recorded("reframe.json"):
        report["session_info"].pop("nimc_head")
    other = edited.write(place / "without heads" / run.name)
    without_heads = bool(line) and not verify(other).is_sound
    is_seen = bool(line) and without_heads and bool(faults)
    changes = not is_seen and shown(run) != base.shown
    return Outcome(False, bool(line), without_heads, bool(faults), changes, line)


def every(edits: int, bases: list[Base]) -> Iterator[tuple[Kind, Base, int]]:
    """So many edits: all kinds by turns, of both runs by turns."""
    for seed in range(edits):
        yield KINDS[seed % len(KINDS)], bases[seed // len(KINDS) % len(bases)], seed


def main() -> int:
    """Print what passes, and the counts."""
    counts, kinds = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bases = [base_of(recorded_quick(folder)), base_of(made_between(folder))]
        for kind, base, seed in every(EDITS, bases):
            found = outcome(base, kind, seed, folder)
            if "-v" in sys.argv:
                print(kind.name, base.name[:7], found and (*found[:-1], found.line[-150:]))
            if found is None:
                counts["nothing of the kind in the run"] += 1
                continue
            counts["seen by every command"] += found.by_all
            counts["seen by verify"] += found.by_verify
            counts["seen by verify if no report has a head"] += found.by_verify_without_heads
            counts["passed, of no consequence"] += not found.by_verify and not found.changes
            counts["passed, with a consequence"] += not found.by_verify and found.changes
            counts["passed if no report has a head, with a consequence"] += (
                not found.by_verify_without_heads and found.changes
            )
            counts["passed with a kept head, with a consequence"] += (
                not found.by_head and found.changes
            )
            if not found.by_verify_without_heads:
                how = "" if not found.by_verify else " (seen by a head in ReFrame's reports)"
                how = how if found.changes else " (no consequence)"
                kinds[kind.name + how] += 1
    for name, count in kinds.items():
        print(f"passed {count} times: {name}")
    print(
        f"{EDITS} edits of {len(KINDS)} kinds: " + ", ".join(f"{n} {w}" for w, n in counts.items())
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
