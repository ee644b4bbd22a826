"""Every kind of edit is seen by `nimc verify`, or docs/integrity.md has why it cannot be."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from nimc.run.verify import verify
from tests.analysis.integrity.__main__ import Base, base_of, outcome, shown
from tests.analysis.integrity.between import made_between
from tests.analysis.integrity.completed import recorded_quick
from tests.analysis.integrity.edits import KINDS, Kind

BOTH = pytest.mark.parametrize("base", [made_between, recorded_quick], indirect=True)


@pytest.fixture(scope="module")
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """The run that is the parameter."""
    return base_of(request.param(tmp_path_factory.mktemp("base")))


def require_seen(folder: Path, base: Base, kinds: Iterable[Kind]) -> None:
    """What has a consequence is seen, or known to pass; a kept head shows all of it."""
    for number, kind in enumerate(kinds):
        found = outcome(base, kind, number, folder)
        if found and found.changes:
            assert found.by_verify or kind.passes == "made", kind.name
            assert found.by_verify_without_heads or kind.passes, kind.name
            assert found.by_head, kind.name


@BOTH
def test_what_passes_is_known(tmp_path: Path, base: Base) -> None:
    require_seen(tmp_path, base, KINDS[::7])


@pytest.mark.slow
@BOTH
def test_what_passes_of_all_kinds_is_known(tmp_path: Path, base: Base) -> None:
    require_seen(tmp_path, base, KINDS)


@pytest.mark.parametrize("base", [made_between], indirect=True)
def test_an_edit_of_nothing_has_no_consequence(tmp_path: Path, base: Base) -> None:
    copy = base.files.write(tmp_path / "copy" / base.name)
    assert (shown(copy), verify(copy, base.head).findings) == (base.shown, [])
    (conditions,) = (kind for kind in KINDS if kind.name == "conditions")
    found = outcome(base, conditions, 1, tmp_path)
    assert found is not None
    assert (found.by_all, found.by_verify_without_heads, found.changes) == (False, False, True)
