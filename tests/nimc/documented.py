"""docs/documents.json, which the documents of commands must agree with."""

import json
from typing import Any

from records.checkout import ROOT

#: Command, with the option that makes another document -> schema, keys, and keys of rows.
DOCUMENTED: dict[str, dict[str, Any]] = json.loads((ROOT / "docs/documents.json").read_text())


def assert_documented(line: str, document: dict[str, Any]) -> None:
    """Assert that the document of a command line has the schema first, and the keys of its row.

    So must its rows: a list of them, or a single one; the document may have none.
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
    """Return whether a command line begins with the words of a row, and has its options."""
    command = [word for word in row if not word.startswith("--")]
    return words[: len(command)] == command and set(row) <= set(words)
