"""Every kind of edit is seen by `nimc verify`, or docs/integrity.md has why it cannot be."""

from pathlib import Path

import pytest

from tests.analysis.integrity.__main__ import Base, base_of, outcome
from tests.analysis.integrity.between import made_between
from tests.analysis.integrity.completed import recorded_quick
from tests.analysis.integrity.edits import KINDS


@pytest.fixture(scope="module")
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """The run that is the parameter."""
    return base_of(request.param(tmp_path_factory.mktemp("base")))


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("base", [made_between, recorded_quick], indirect=True)
def test_what_passes_is_known(tmp_path: Path, base: Base, step: int) -> None:
    """What has a consequence is seen, or known to pass; a kept head shows all of it."""
    for number, kind in enumerate(KINDS[::step]):
        found = outcome(base, kind, number, tmp_path)
        if found and found.changes:
            assert found.by_verify or kind.passes == "made", kind.name
            assert found.by_verify_without_heads or kind.passes, kind.name
            assert found.by_head, kind.name
