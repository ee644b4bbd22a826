"""Every kind of edit is seen, or docs/integrity.md has why it cannot be."""

import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from tests.analysis.integrity.__main__ import Base, outcome, shown
from tests.analysis.integrity.between import made_between
from tests.analysis.integrity.edits import KINDS, Run
from tests.analysis.integrity.test_contradictions import checked
from tests.captures import RUN_QUICK

#: What passes in the recorded run, which is of an earlier version: its header keeps less.
OLDER = {"a case", "margin, and the text"}


@pytest.mark.parametrize("made", [made_between, lambda _: RUN_QUICK], ids=["between", "recorded"])
def test_what_is_seen_and_what_passes(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    base = made(tmp_path / "base")
    files = Run.read(base)
    passed = set()
    for number, kind in enumerate(KINDS):
        edited = deepcopy(files)
        try:
            kind.edit(edited, random.Random(number))
        except (IndexError, KeyError, TypeError):  # nothing of the kind in this run
            continue
        if edited != files:
            run = edited.write(tmp_path / str(number) / base.name)
            try:
                passed |= set() if checked(run).count else {kind.name}
            except InputError:
                continue
    allowed = {kind.name for kind in KINDS if kind.passes}
    assert passed == (allowed | OLDER if base == RUN_QUICK else allowed)


def test_an_edit_of_nothing_has_no_consequence(tmp_path: Path) -> None:
    path = made_between(tmp_path)
    base = Base(path.name, Run.read(path), shown(path))
    copy = base.files.write(tmp_path / "copy" / path.name)
    assert shown(copy) == base.shown
    (notes,) = (kind for kind in KINDS if kind.name == "a note of all runs")
    assert outcome(base, notes, 1, tmp_path)[0] == "passes"
