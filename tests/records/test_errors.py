"""What is said of a value that is wrong, and which documents are not read."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field, ValidationError, create_model

from records.errors import InputError, first_fault, shown_value, suggestion
from records.json_limits import parse_document, read_document, read_json, refuse_long, validated
from records.marked_yaml import Duration, Rate, Record, Size
from records.sample import DeviceBytes


def odd(_: int) -> int:
    raise ValueError("even, but odd is allowed")


@pytest.mark.parametrize(
    ("kind", "value", "fault"),
    [
        (int, "y", "x: 'y' found; allowed: a whole number"),
        (int, 1.5, "x: 1.5 found; allowed: a whole number"),
        (float, "y", "x: 'y' found; allowed: a number"),
        (str, 3, "x: 3 found; allowed: text"),
        (list[int], {}, "x: a mapping found; allowed: a list"),
        (dict[str, int], [], "x: a list found; allowed: a mapping"),
        (Record, None, "x: nothing found; allowed: a mapping"),
        (Annotated[list[int], Field(min_length=2)], [1], "x: a list found; allowed: at least 2"),
        (Literal["a"], True, "x: true found; allowed: 'a'"),
        (Annotated[int, Field(gt=0)], 0, "x: 0 found; allowed: greater than 0"),
        (Annotated[str, Field(pattern="^a$")], "b", "x: 'b' found; allowed: match pattern '^a$'"),
        (Annotated[int, AfterValidator(odd)], 2, "x: even, but odd is allowed"),
        (list[int], [1, "y"], "x.1: 'y' found; allowed: a whole number"),
        (Duration, "0s", "x: '0s' found; allowed: greater than 0"),
        (Size, 64, "x: '64' is not a size"),
        (Rate, "0B/s", "x: '0B/s' found; allowed: greater than 0"),
    ],
)
def test_a_fault_names_field_value_and_what_is_allowed(
    kind: Any, value: object, fault: str
) -> None:
    model: Any = create_model("Model", __base__=Record, x=(kind, ...))
    with pytest.raises(ValidationError) as error:
        model.model_validate({"x": value})
    assert first_fault(error.value).startswith(fault)


@pytest.mark.parametrize(
    ("value", "fault"),
    [({}, "a.x: missing"), ({"x": 1, "y": 2}, "a.y: unknown key"), (3, "a: 3 found; allowed: a")],
)
def test_a_fault_is_within_its_record(value: object, fault: str) -> None:
    with pytest.raises(ValidationError) as error:
        create_model("Model", __base__=Record, x=(int, ...)).model_validate(value)
    assert first_fault(error.value, "a").startswith(fault)
    assert first_fault(error.value).startswith(fault[2:] if isinstance(value, dict) else "the file")


def test_values_are_shortened_and_words_recognised() -> None:
    assert shown_value("x" * 58) == f"'{'x' * 58}'"
    assert shown_value("x" * 59) == f"'{'x' * 56}..."
    assert suggestion("quik", ["numa", "quick"]) == ", did you mean 'quick'?"
    assert suggestion("other", ["numa", "quick"]) == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"[" * 100_000, "recursion limit"),
        (b"[" * 100, "EOF"),
        (b"NaN", "expected value"),
        (b"{", "EOF"),
    ],
)
def test_documents_that_no_record_needs_are_refused(text: bytes, fault: str) -> None:
    with pytest.raises(InputError, match=f"^here: .*{fault}"):
        parse_document(text, "here")


def test_limits_of_documents(tmp_path: Path) -> None:
    refuse_long(bytes(16 << 20), "here")
    with pytest.raises(InputError, match=r"^here: is longer than allowed: 16 MiB$"):
        refuse_long(bytes((16 << 20) + 1), "here")
    (tmp_path / "f").write_text('{"device": "m0", "received_b": 3, "sent_b": 4}')
    (tmp_path / "link").symlink_to("f")
    record = read_json(tmp_path / "link")
    assert validated(DeviceBytes, record, tmp_path) == DeviceBytes("m0", 3, 4)
    with pytest.raises(InputError, match=r"f: bins\.sent_b: missing"):
        validated(DeviceBytes, {"device": "m0", "received_b": 1}, tmp_path / "f", "bins")
    os.truncate(tmp_path / "f", (16 << 20) + 1)
    with pytest.raises(InputError, match="longer than allowed"):
        read_document(tmp_path / "f")
