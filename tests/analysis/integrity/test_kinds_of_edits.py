"""Every kind of edit is seen by `nimc verify`, or docs/integrity.md has why it cannot be."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from nimc.run.verify import verify
from tests.analysis.integrity.__main__ import base_of, outcome, shown
from tests.analysis.integrity.between import made_between
from tests.analysis.integrity.completed import recorded_quick
from tests.analysis.integrity.edits import KINDS, Kind

BOTH = pytest.mark.parametrize("made", [made_between, recorded_quick])
Made = Callable[[Path], Path]


def require_seen(folder: Path, made: Made, kinds: Iterable[Kind]) -> None:
    """What has a consequence is seen, or known to pass; a kept head shows all of it."""
    base = base_of(made(folder / "base"))
    for number, kind in enumerate(kinds):
        found = outcome(base, kind, number, folder)
        if found and found.changes:
            assert found.by_verify or kind.passes == "made", kind.name
            assert found.by_verify_without_heads or kind.passes, kind.name
            assert found.by_head, kind.name


@BOTH
def test_what_passes_is_known(tmp_path: Path, made: Made) -> None:
    require_seen(tmp_path, made, [*KINDS[::20], *(kind for kind in KINDS if kind.passes)])


@pytest.mark.slow
@BOTH
def test_what_passes_of_all_kinds_is_known(tmp_path: Path, made: Made) -> None:
    require_seen(tmp_path, made, KINDS)


def test_an_edit_of_nothing_has_no_consequence(tmp_path: Path) -> None:
    base = base_of(made_between(tmp_path / "base"))
    copy = base.files.write(tmp_path / "copy" / base.name)
    assert (shown(copy), verify(copy, base.head).findings) == (base.shown, [])
    (conditions,) = (kind for kind in KINDS if kind.name == "conditions")
    found = outcome(base, conditions, 1, tmp_path)
    assert found is not None
    assert (found.by_all, found.by_verify_without_heads, found.changes) == (False, False, True)
