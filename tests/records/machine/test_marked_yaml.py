"""The YAML that campaign files are written in."""

import os
from pathlib import Path
from typing import Any

import pytest

from records.errors import InputError
from records.marked_yaml import load

#: A list in a list, and so on: 63 of them, in a mapping as deep as allowed.
NESTED: list[object] = []
for _ in range(62):
    NESTED = [NESTED]
#: Text of a value -> what it is, and not another thing that YAML has for it.
VALUES: dict[str, object] = {
    "true": True, "false": False, "off": "off", "yes": "yes", "~": None, "": None, "null": None,
    "0": 0, "-70": -70, "+7": 7, "9" * 18: 10**18 - 1, ".5": 0.5, "1.": 1.0, "1e3": 1000.0,
    "-1.5E-3": -0.0015, "007": "007", "10:30": "10:30", "2026-01-01": "2026-01-01",
    "0x10": "0x10", "1e": "1e", ".inf": ".inf", "'3'": "3", "9" * 19: "9" * 19,
    "[" * 63 + "]" * 63: NESTED,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x: " + "[" * 50_000, 1),
        ("a: 1\nx: " + "{a: " * 50_000, 2),
        ("- " * 50_000, 1),
        ("? " * 50_000, 1),
        ("".join(" " * level + "a:\n" for level in range(3000)), 101),
    ],
)
def test_what_is_nested_too_deep_is_refused(tmp_path: Path, text: str, line: int) -> None:
    """From 30,000 levels on libyaml ended the process by SIGSEGV; that of PyYAML 6.0.4 refuses."""
    refused = "nested deeper than allowed: 100|invalid YAML: exceeded maximum nesting depth"
    with pytest.raises(InputError, match=rf"f\.yaml:{line}: ({refused})"):
        read(tmp_path, text)


def read(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    return load(path).data


def test_nothing_is_taken_for_something_else(tmp_path: Path) -> None:
    for text, value in VALUES.items():
        document = read(tmp_path, f"a: {text}\n")
        assert document == {"a": value}
        assert type(document["a"]) is type(value)


def test_lines_of_values_and_keys(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a:\n  b:\n    - 1\n    - c: 2\n")
    marked = load(path)
    assert marked.key_lines == {("a",): 1, ("a", "b"): 2, ("a", "b", 1, "c"): 4}
    assert marked.line(("a", "b", 0)) == 3
    # What is not there stands where the thing around it begins.
    assert marked.line(("a", "b", 1, "missing")) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: !!python/object:os.system x", "f.yaml:1: the tag"),
        ("a: !!int x", "f.yaml:1: 'x' is not of type int"),
        ("a: !!set {b}", "f.yaml:1: the tag 'tag:yaml.org,2002:set' is not allowed"),
        ("a: !!str [b]", "f.yaml:1: the tag"),
        ("a: 1\nb:\n  c: 1\n  c: 2", "f.yaml:4: duplicate key 'c', first in line 3"),
        ("b: 1\n1: 2", "f.yaml:2: a key must be a word"),
        ("a: &x [*x]", "f.yaml:1: an alias"),
        ("a\n---\nb", "f.yaml:2: invalid YAML"),
        ("a: \0", "f.yaml:1: invalid YAML"),
        ("a:\n\t- b", "a tab is in this line, and YAML is indented with spaces"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_other_encodings_and_sizes(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes("a: 1\n".encode("utf-8-sig"))
    assert load(path).data == {"a": 1}  # the byte order mark is no part of the key
    for written, expected in (
        ("a: 1\nb: \xe9\n".encode("latin-1"), f"{path}:2: not UTF-8 text"),
        ("a: 1\n".encode("utf-16"), f"{path}:1: not UTF-8 text"),
        (b"#" * (16 * 2**20 + 1), f"{path}: is longer than allowed: 16 MiB"),
    ):
        path.write_bytes(written)
        with pytest.raises(InputError) as error:
            load(path)
        assert str(error.value) == expected


def test_what_would_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    for name, expected in (
        ("fifo", "not a regular file"),
        ("loop", "Too many levels of symbolic links"),
        (".", "not a regular file"),
    ):
        with pytest.raises(InputError, match=expected):
            load(tmp_path / name)
    with pytest.raises(InputError, match="null"):
        load(Path("a\0b"))
