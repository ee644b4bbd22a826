"""The table of docs/command-line.md#json, which documents must agree with."""

import re
from typing import Any

from records.checkout import ROOT

_ROW = re.compile(r"\| `(?P<name>[^|]+?) \| (?P<schema>\d+) \| (?P<keys>[^|;]+)[^|]*\|")

#: Command, with the option that makes another document -> schema, keys.
DOCUMENTED: dict[str, tuple[int, list[str]]] = {
    row["name"].replace("`", ""): (int(row["schema"]), re.findall(r"`([^`]+)`", row["keys"]))
    for row in _ROW.finditer((ROOT / "docs/command-line.md").read_text())
}


def assert_documented(line: str, document: dict[str, Any]) -> None:
    """Of a command line: the schema comes first, and the keys are those of its row of the table."""
    words = line.split()
    rows = [name for name in DOCUMENTED if is_of(words, *name.split())]
    schema, keys = DOCUMENTED[max(rows, key=len)]
    assert next(iter(document.items())) == ("schema", schema)
    assert sorted(document) == sorted(["schema", *keys])


def is_of(words: list[str], *row: str) -> bool:
    """Whether a command line begins with the words of a row, and has its options."""
    command = [each for each in row if not each.startswith("--")]
    return words[: len(command)] == command and set(row) <= set(words)
