"""Every note on a result has a remedy, which the report shows."""

import json
from string import Formatter

import pytest

from records.notes import Note, remedy_of
from tests.captures import RUN_QUICK


@pytest.mark.parametrize("note", Note)
def test_a_note_is_recognised_with_any_values(note: Note) -> None:
    names = [(name, spec) for _, name, spec, _ in Formatter().parse(note.text) if name]
    assert (
        remedy_of(note(**{name: 2.5 if spec else "a (b)" for name, spec in names})) == note.remedy
    )


def test_all_notes_of_a_recorded_run_have_a_remedy() -> None:
    document = json.loads((RUN_QUICK.parent / "results.json").read_text())
    notes = {note for run in document["runs"] for row in run["results"] for note in row["notes"]}
    assert len(notes) > 2
    assert [note for note in notes if remedy_of(note) is None] == []


def test_a_note_of_a_site_has_no_remedy() -> None:
    assert remedy_of("the memory is emulated") is None
