"""The subset of YAML in which campaign files are written."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from records.errors import InputError
from records.text import one_line
from records.yaml_file import Record, containing_model, line_of, load, parse
from tests.messages import assert_message

#: 63 nested lists.
NESTED: list[object] = []
for _ in range(62):
    NESTED = [NESTED]
#: Text -> its value. Some of these texts have other values in standard YAML.
VALUES: dict[str, object] = {
    "true": True, "false": False, "off": "off", "yes": "yes", "~": None, "": None, "null": None,
    "0": 0, "-70": -70, "+7": 7, "9" * 18: 10**18 - 1, ".5": 0.5, "1.": 1.0, "1e3": 1000.0,
    "-1.5E-3": -0.0015, "007": "007", "10:30": "10:30", "2026-01-01": "2026-01-01",
    "0x10": "0x10", "1e": "1e", ".inf": ".inf", "'3'": "3", "9" * 19: "9" * 19,
    "[" * 63 + "]" * 63: NESTED,
}  # fmt: skip


def read(tmp_path: Path, text: str) -> Any:
    """Write `f.yaml` with this text, load it, and return its content."""
    path = tmp_path / "f.yaml"
    path.write_text(text)
    return load(path).data


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x: " + "[" * 50_000 + "]" * 50_000, 1),
        ("a: 1\nx: " + "{a: " * 50_000 + "}" * 50_000, 2),
        ("- " * 50_000, 1),
        ("? " * 50_000, 1),
        ("".join(" " * level + "a:\n" for level in range(3000)), 101),
    ],
    ids=["lists", "mappings", "dashes", "question marks", "indentation"],
)
def test_a_file_with_too_many_levels_is_refused(tmp_path: Path, text: str, line: int) -> None:
    """From 30,000 levels on, libyaml ended the process with SIGSEGV.

    The libyaml of PyYAML 6.0.4 refuses such a file itself.
    """
    with pytest.raises(InputError, match=rf"f\.yaml:{line}: .*(100 levels|maximum nesting depth)"):
        read(tmp_path, text)


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_a_text_has_this_value_and_type(tmp_path: Path, text: str, value: object) -> None:
    document = read(tmp_path, f"a: {text}\n")
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


def test_levels_are_counted_and_not_lists(tmp_path: Path) -> None:
    assert read(tmp_path, "- []\n" * 150) == [[]] * 150
    with pytest.raises(InputError, match=":151:"):
        read(tmp_path, "- []\n" * 150 + "- " + "[" * 150 + "]" * 150)


def test_a_value_is_in_the_last_file_that_has_its_first_key() -> None:
    base, site = parse("a: 1\nb: 2\nc: 3\n", Path("base")), parse("\nb: 4\n", Path("site"))
    lines = [line_of([base, site], keys) for keys in (("b",), ("c", 0), ("d",), ())]
    assert lines == ["site:2", "base:3", "base:1", "base:1"]


def test_the_model_of_a_mapping_is_found_by_the_keys_of_what_it_contains() -> None:
    class Port(Record):
        number: int

    class Rail(Record):
        device: str
        port: Port

    class Box(Record):
        name: str
        rail: Rail | None
        rails: list[Rail]

    keys = [("rail", "x"), ("rails", 0, "x"), ("x",), ("name", "x"), ("rail", "port", "x")]
    assert [containing_model(Box, path) for path in keys] == [Rail, Rail, Box, Box, Port]
    assert containing_model(Box, ("rail", "port")) is Rail


def test_lines_of_values_and_keys(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a:\n  b:\n    - 1\n    - c: 2\n")
    document = load(path)
    assert document.key_lines == {("a",): 1, ("a", "b"): 2, ("a", "b", 1, "c"): 4}
    assert document.line(("a", "b", 0)) == 3
    # For a missing key, this is the line in which its mapping begins.
    assert document.line(("a", "b", 1, "missing")) == 4


@pytest.mark.parametrize(
    ("text", "line", "values"),
    [
        ("a: !!python/object:os.system x", 1, ["'tag:yaml.org,2002:python/object:os.system'"]),
        ("a: !!int x", 1, ["'x'", "int"]),
        ("a: !!set {b}", 1, ["'tag:yaml.org,2002:set'"]),
        ("a: !!str [b]", 1, ["'tag:yaml.org,2002:str'"]),
        ("a: 1\nb:\n  c: 1\n  c: 2", 4, ["'c'", "line 3"]),
        ("b: 1\n1: 2", 2, ["key"]),
        ("a: &x [*x]", 1, ["alias"]),
        ("a\n---\nb", 2, ["YAML"]),
        ("a: \0", 1, ["YAML"]),
        ("a:\n\t- b", 2, ["tab", "spaces"]),
    ],
)
def test_an_invalid_file_is_refused_with_the_line(
    tmp_path: Path, text: str, line: int, values: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert_message(str(error.value), f"{tmp_path}/f.yaml:{line}", *values)
    assert "\n" not in str(error.value)


def test_the_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes("a: 1\n".encode("utf-8-sig"))
    assert load(path).data == {"a": 1}


@pytest.mark.parametrize(
    ("content", "line"),
    [("a: 1\nb: \xe9\n".encode("latin-1"), 2), ("a: 1\n".encode("utf-16"), 1)],
)
def test_other_encodings_are_refused(tmp_path: Path, content: bytes, line: int) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        load(path)
    assert_message(str(error.value), f"{path}:{line}", "UTF-8")


def test_a_file_of_more_than_16_mib_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"#" * (16 * 2**20 + 1))
    with pytest.raises(InputError) as error:
        load(path)
    assert_message(str(error.value), f"{path}", "16 MiB")


@pytest.mark.parametrize("name", ["fifo", "loop", ".", "a\0b"])
def test_a_path_that_is_no_regular_file_is_refused(tmp_path: Path, name: str) -> None:
    """The paths are a pipe without a writer, a link to itself, a folder, and an invalid path."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    path = tmp_path / name
    with pytest.raises(InputError, match=f"^{re.escape(one_line(str(path)))}: "):
        load(path)
