"""Messages about invalid values, and documents that are refused: too large, too deep, not JSON."""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field, ValidationError, create_model

from records.errors import InputError, first_fault, shown_value, suggestion
from records.json_limits import parse_document, read_document, read_json, refuse_long, validated
from records.sample import DeviceBytes
from records.yaml_file import Duration, Rate, Record, Size
from tests.messages import assert_message


def refuse_all(_: int) -> int:
    raise ValueError("even; allowed: odd")


@pytest.mark.parametrize(
    ("kind", "value", "message"),
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
        (Annotated[int, AfterValidator(refuse_all)], 2, "x: even; allowed: odd"),
        (list[int], [1, "y"], "x.1: 'y' found; allowed: a whole number"),
        (Duration, "0s", "x: '0s' found; allowed: greater than 0"),
        (Size, 64, "x: '64' "),
        (Rate, "0B/s", "x: '0B/s' found; allowed: greater than 0"),
    ],
)
def test_a_fault_names_field_value_and_what_is_allowed(
    kind: Any, value: object, message: str
) -> None:
    model: Any = create_model("Model", __base__=Record, x=(kind, ...))
    with pytest.raises(ValidationError) as error:
        model.model_validate({"x": value})
    assert first_fault(error.value).startswith(message)


@pytest.mark.parametrize(
    ("record", "field", "fault"),
    [({}, "x", "missing"), ({"x": 1, "y": 2}, "y", "unknown"), ({"x": "one"}, "x", "'one'")],
)
def test_a_fault_is_named_by_the_keys_that_lead_to_its_record(
    record: dict[str, object], field: str, fault: str
) -> None:
    with pytest.raises(ValidationError) as error:
        create_model("Model", __base__=Record, x=(int, ...)).model_validate(record)
    assert_message(first_fault(error.value), field, fault)
    assert_message(first_fault(error.value, "bins", "first"), f"bins.first.{field}", fault)


def test_a_record_that_is_no_mapping_is_named_by_the_keys_that_lead_to_it() -> None:
    with pytest.raises(ValidationError) as error:
        create_model("Model", __base__=Record).model_validate(3)
    assert_message(first_fault(error.value), "the file", "3", allowed="a mapping")
    assert_message(first_fault(error.value, "a"), "a", "3", allowed="a mapping")


def test_a_long_value_is_shortened_to_60_characters() -> None:
    assert shown_value("x" * 58) == f"'{'x' * 58}'"
    assert shown_value("x" * 59) == f"'{'x' * 56}..."


def test_a_known_word_is_suggested_for_a_similar_word() -> None:
    assert "'quick'" in suggestion("quik", ["numa", "quick"])
    assert suggestion("other", ["numa", "quick"]) == ""


@pytest.mark.parametrize("text", [b"[" * 100_000 + b"]" * 100_000, b"NaN", b"[Infinity]", b"{"])
def test_invalid_documents_are_refused(text: bytes) -> None:
    """They have too many levels, have NaN or Infinity, or are not JSON."""
    with pytest.raises(InputError, match=r"^here: "):
        parse_document(text, "here")


def test_a_document_may_be_100_levels_deep() -> None:
    document = parse_document(b"[" * 100 + b"]" * 100, "here")
    for _ in range(99):
        (document,) = document
    assert document == []


MAX_B = 16 << 20


def test_a_line_may_have_16_mib() -> None:
    refuse_long(bytes(MAX_B), "here")
    with pytest.raises(InputError, match=r"^here: .*: 16 MiB$"):
        refuse_long(bytes(MAX_B + 1), "here")


def test_a_file_of_more_than_16_mib_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch()
    os.truncate(path, MAX_B + 1)
    with pytest.raises(InputError, match=rf"^{re.escape(str(path))}: .*16 MiB"):
        read_document(path)


def test_a_document_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('{"device": "m0", "received_b": 3, "sent_b": 4}')
    (tmp_path / "link").symlink_to("f")
    record = read_json(tmp_path / "link")
    assert validated(DeviceBytes, record, tmp_path) == DeviceBytes("m0", 3, 4)


def test_a_fault_of_a_record_in_a_file_names_file_and_field(tmp_path: Path) -> None:
    record = {"device": "m0", "received_b": 1}
    with pytest.raises(InputError) as error:
        validated(DeviceBytes, record, tmp_path / "f", "bins")
    assert_message(str(error.value), f"{tmp_path / 'f'}: bins.sent_b")
