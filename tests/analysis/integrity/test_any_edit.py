"""Any edit of one field is refused, or changes nothing, or is of a field that nothing checks."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.report.data import load_run
from analysis.report.page import render
from nimc.base.errors import InputError
from nimc.run.verify import verify
from tests.analysis.integrity.__main__ import Base, base_of, outcome, shown
from tests.analysis.integrity.between import made_between
from tests.analysis.integrity.completed import recorded_quick
from tests.analysis.integrity.edits import KINDS, Kind
from tests.analysis.integrity.sound import edit_header, edit_samples, sound_run

#: Fields that are measured, or told by the campaign's author: no other record says what they were,
#: so an edit is seen only if it is not plausible (docs/integrity.md lists them).
UNCHECKED = {
    *("fom", "fom_extra", "fom_unit", "fom_better", "start_s", "elapsed_s", "notes", "conditions"),
    *("lead_in_s", "reason", "workload", "factors", "timetable", "outcome", "schema"),
    *("writers", "injector", "transport", "direction", "message_b", "asked_b_s", "rate_alone_b_s"),
    *("rate_b_s", "rate_min_b_s", "bytes_b", "counted_b", "counted_s", "counted_alone_b_s"),
    *("counter", "buffer_node", "target_buffers_b", "origin_buffers_b", "target_on_node_share"),
    *("target_pinned_b", "own_binding", "observed_share", "unobserved_s", "proof"),
    *("overwritten_share", "cpu_share", "rate_before_b_s", "burst"),
    *("campaign", "machine", "started_s", "finished_s", "campaign_text", "pairs_floor"),
    *("pairs_cap", "precision", "facts", "versions", "commit", "margin", "seed", "asked"),
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(
        ["../x", "on", "off", "aa", "kept", "rejected", "control", "", 10**400, "1e999"]
    ),
    st.lists(st.integers(0, 2), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(0, 2), max_size=2),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], Any]:
    """The run, its files, and its results."""
    run = sound_run(tmp_path_factory.mktemp("any"))
    files = {str(path): path.read_text() for path in run.rglob("*") if path.is_file()}
    return run, files, load_run(run).document()


def lines_of_force(run: Path) -> int:
    """Lines of the error with --force; 0 if the page can be made."""
    try:
        render([load_run(run, force=True)])
    except InputError as error:
        return len(str(error).splitlines())
    return 0


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_an_edit_is_told_or_harmless(sound: tuple[Path, dict[str, str], Any], data: Any) -> None:
    run, files, before = sound
    for path, text in files.items():
        Path(path).write_text(text)
    where = data.draw(st.sampled_from(["header", "sample", "sample", "writer"]))
    value = data.draw(VALUES)
    edited = []

    def edit(record: dict[str, Any]) -> None:
        field = data.draw(st.sampled_from(sorted(record)))
        edited.append(field)
        record[field] = value

    def edit_one(records: list[dict[str, Any]]) -> None:
        record = data.draw(st.sampled_from(records))
        edit(data.draw(st.sampled_from(record["writers"])) if where == "writer" else record)

    def of_writers(records: list[dict[str, Any]]) -> None:
        edit_one([record for record in records if record["writers"]])

    if where == "header":
        edit_header(run, edit)
    else:
        edit_samples(run, "stream", of_writers if where == "writer" else edit_one)
    try:
        found = load_run(run)
    except InputError:
        assert lines_of_force(run) <= 1
        return
    render([found])
    if edited[0] not in UNCHECKED:
        # The head tells of every edit, if it was kept elsewhere.
        assert json.dumps(found.document() | {"head": None}) == json.dumps(before | {"head": None})


# Every kind of edit is seen by `nimc verify`, or docs/integrity.md has why it cannot be.


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
