"""Every kind of edit is seen by `nimc verify`, or docs/integrity.md has why it cannot be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nimc.run.verify import verify
from tests.analysis.integrity.__main__ import base_of, outcome, shown
from tests.analysis.integrity.between import made_between
from tests.analysis.integrity.completed import recorded_quick
from tests.analysis.integrity.edits import KINDS

#: What passes in the recorded run: the header of its version keeps no resolved campaign.
OLDER = {"a case", "margin, and the text"}


@pytest.mark.parametrize("made", [made_between, recorded_quick])
def test_what_passes_is_known_and_a_kept_head_shows_it(
    tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    base = base_of(made(tmp_path / "base"))
    allowed = {kind.name for kind in KINDS if kind.passes}
    if made is recorded_quick:
        allowed |= OLDER
    for number, kind in enumerate(KINDS):
        found = outcome(base, kind, number, tmp_path)
        if found and found.changes:
            assert found.by_verify or kind.name in allowed, kind.name
            assert found.by_head, kind.name


def test_an_edit_of_nothing_has_no_consequence(tmp_path: Path) -> None:
    base = base_of(made_between(tmp_path / "base"))
    copy = base.files.write(tmp_path / "copy" / base.name)
    assert (shown(copy), verify(copy, base.head).findings) == (base.shown, [])
    (conditions,) = (kind for kind in KINDS if kind.name == "conditions")
    found = outcome(base, conditions, 1, tmp_path)
    assert found is not None
    assert (found.by_verify, found.changes, found.by_head) == (False, True, True)
