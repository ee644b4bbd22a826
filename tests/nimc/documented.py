"""The table of docs/json.md, which documents must agree with."""

import re
from typing import Any

from tests.nimc.conftest import ROOT

_ROW = re.compile(r"\| `(?P<name>[^|]+?) \| (?P<schema>\d+) \| (?P<keys>[^|;]+)[^|]*\|")

#: Command, with the option that makes another document -> schema, keys.
DOCUMENTED: dict[str, tuple[int, list[str]]] = {
    row["name"].replace("`", ""): (int(row["schema"]), re.findall(r"`([^`]+)`", row["keys"]))
    for row in _ROW.finditer((ROOT / "docs/json.md").read_text())
}


def assert_documented(name: str, document: dict[str, Any]) -> None:
    """The schema comes first, and the keys are those of the table."""
    schema, keys = DOCUMENTED[name]
    assert next(iter(document.items())) == ("schema", schema)
    assert sorted(document) == sorted(["schema", *keys])
