"""Compares JSON documents that commands print with docs/documents.json, which lists their keys."""

import json
from typing import Any

from records.checkout import ROOT

#: Command (with an option if it gives another document) -> schema, keys, and keys of rows.
DOCUMENTED: dict[str, dict[str, Any]] = json.loads((ROOT / "docs/documents.json").read_text())


def assert_documented(line: str, document: dict[str, Any]) -> None:
    """Assert that the document of a command line has the documented schema and keys.

    The schema comes first. Rows in the document, a list or a single row, must have the documented
    keys too. The document may have no rows.
    """
    words = line.split()
    names = [name for name in DOCUMENTED if matches(words, name.split())]
    documented = DOCUMENTED[max(names, key=len)]
    assert next(iter(document.items())) == ("schema", documented["schema"])
    assert sorted(document) == sorted(["schema", *documented["keys"]])
    for name, keys in documented.get("rows", {}).items():
        rows = document.get(name) or []
        for row in rows if isinstance(rows, list) else [rows]:
            assert sorted(row) == sorted(keys), name


def matches(words: list[str], row: list[str]) -> bool:
    """Return whether a command line has the words and options of a documented command."""
    command = [word for word in row if not word.startswith("--")]
    return words[: len(command)] == command and set(row) <= set(words)
