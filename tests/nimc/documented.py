"""docs/documents.json, which the documents of commands must agree with."""

import json
from typing import Any

from records.checkout import ROOT

#: Command, with the option that makes another document -> schema, keys.
DOCUMENTED: dict[str, tuple[int, list[str]]] = {
    name: (row["schema"], row["keys"])
    for name, row in json.loads((ROOT / "docs/documents.json").read_text()).items()
}


def assert_documented(line: str, document: dict[str, Any]) -> None:
    """Assert that the document of a command line has the schema first, and the keys of its row."""
    words = line.split()
    rows = [name for name in DOCUMENTED if matches(words, name.split())]
    schema, keys = DOCUMENTED[max(rows, key=len)]
    assert next(iter(document.items())) == ("schema", schema)
    assert sorted(document) == sorted(["schema", *keys])


def matches(words: list[str], row: list[str]) -> bool:
    """Return whether a command line begins with the words of a row, and has its options."""
    command = [word for word in row if not word.startswith("--")]
    return words[: len(command)] == command and set(row) <= set(words)
