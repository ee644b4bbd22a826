"""The schemas in docs/schemas/ are up to date, and a recorded run follows them."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nimc.crate.schemas import FOLDER, SCHEMAS, text_of
from records.sample import upgraded
from tests.captures import RUN_QUICK


def test_files_of_schemas_agree_with_the_definitions_of_records() -> None:
    """If they do not, run `python -m nimc.crate.schemas`."""
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(SCHEMAS)
    for name in SCHEMAS:
        assert (FOLDER / f"{name}.json").read_text() == text_of(name)


def schema(name: str) -> dict[str, Any]:
    """Return a schema of docs/schemas/, which must be valid itself."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return document


def records(path: Path) -> list[Any]:
    """Return the documents in a file. Samples have an older schema, so they are upgraded."""
    text = path.read_text()
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    documents = map(json.loads, lines)
    return [upgraded(document) if "outcome" in document else document for document in documents]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("run", ["run.json"]),
        ("sample", ["samples/lammps.jsonl", "samples/stream.jsonl"]),
        ("counter", ["counters/lammps.jsonl", "counters/stream.jsonl"]),
        ("results", ["../results.json"]),
    ],
)
def test_the_recorded_run_follows_the_schemas(name: str, files: list[str]) -> None:
    validator = jsonschema.Draft202012Validator(schema(name))
    for file in files:
        documents = records(RUN_QUICK / file)
        assert documents
        for document in documents:
            validator.validate(document)


@pytest.mark.parametrize(("field", "value"), [("fom", "fast"), ("outcome", "good"), ("chain", "x")])
def test_a_value_that_no_sample_has_is_rejected(field: str, value: object) -> None:
    sample = records(RUN_QUICK / "samples" / "stream.jsonl")[0] | {field: value}
    with pytest.raises(jsonschema.ValidationError) as error:
        jsonschema.validate(sample, schema("sample"))
    assert field in error.value.absolute_path


@pytest.mark.parametrize("name", ["run", "sample", "counter", "host", "comparison", "injection"])
def test_every_field_has_a_description(name: str) -> None:
    document = schema(name)
    for definition in (document, *document.get("$defs", {}).values()):
        for field, rule in definition["properties"].items():
            assert len(rule.get("description", "")) > 4, field
