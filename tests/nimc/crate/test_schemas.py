"""docs/schemas/ is as the records' definitions give it, and real records follow it."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nimc.crate.schemas import FOLDER, SCHEMAS, text_of
from records.sample import upgraded
from tests.captures import RUN_QUICK


def test_they_are_up_to_date_and_no_others_are_there() -> None:
    """Else: python -m nimc.crate.schemas."""
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(SCHEMAS)
    for name in SCHEMAS:
        assert (FOLDER / f"{name}.json").read_text() == text_of(name)


def schema(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return document


def records(path: Path) -> list[Any]:
    """The documents of a file; samples, which are of the schema before, as those of today."""
    text = path.read_text()
    documents = text.splitlines() if path.suffix == ".jsonl" else [text]
    loaded = map(json.loads, documents)
    return [upgraded(document) if "outcome" in document else document for document in loaded]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("run", [RUN_QUICK / "run.json"]),
        ("sample", sorted((RUN_QUICK / "samples").iterdir())),
        ("counter", sorted((RUN_QUICK / "counters").iterdir())),
        ("results", [RUN_QUICK.parent / "results.json"]),
    ],
)
def test_the_recorded_run_follows_them(name: str, files: list[Path]) -> None:
    validator = jsonschema.Draft202012Validator(schema(name))
    for record in (document for path in files for document in records(path)):
        validator.validate(record)


@pytest.mark.parametrize(("field", "value"), [("fom", "fast"), ("outcome", "good"), ("chain", "x")])
def test_what_no_sample_has_is_rejected(field: str, value: object) -> None:
    record = records(RUN_QUICK / "samples" / "stream.jsonl")[0] | {field: value}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record, schema("sample"))


def test_every_field_says_what_it_is() -> None:
    for name in ("run", "sample", "counter", "host", "comparison", "injection"):
        record = schema(name)
        for kind in (record, *record.get("$defs", {}).values()):
            for field, known in kind["properties"].items():
                assert len(known.get("description", "")) > 4, f"{name}: {field}"
