"""Keys of a ReFrame configuration, compared with ReFrame's own schema.

ReFrame itself takes a second to read a file; this finds what is misspelt, missing or not among the
allowed words.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

#: Levels that are compared: names of keys -> objects of that schema.
_LEVELS = ("systems", "partitions", "environments")


def key_fault(config: Path, made: Mapping[str, Any]) -> tuple[int, str] | None:
    """Line and text of the first fault in a configuration; None if there is none."""
    # A file need not have every section: ReFrame has defaults for the others.
    schema = {**_schema(), "required": []}
    for where, thing, allowed in _objects("", made, schema):
        for word, text in _faults(thing, allowed):
            return line_of(config, word), f"{where}{text}"
    return None


def line_of(file: Path, word: str) -> int:
    """The first line of a file that has the word in quotes; 1 if none has."""
    quoted = re.compile(rf"""["']{re.escape(word)}["']""")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((at for at, line in enumerate(lines, 1) if quoted.search(line)), 1)


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    """ReFrame's schema; empty, so that nothing is compared, if it is not where it was."""
    spec = importlib.util.find_spec("reframe")
    file = Path(spec.origin).parent / "schemas/config.json" if spec and spec.origin else None
    found: dict[str, Any] = json.loads(file.read_text()) if file and file.is_file() else {}
    return found


def _objects(
    where: str, thing: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Each object to compare, with its name for messages and its schema."""
    yield where, thing, schema
    for key in _LEVELS:
        inner = schema.get("properties", {}).get(key, {}).get("items", {})
        for each in thing.get(key, []) if inner else []:
            if isinstance(each, Mapping):
                yield from _objects(f"{where}{key}: ", each, inner)


def _faults(thing: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Word to look for in the file, and what is wrong."""
    known = schema.get("properties", {})
    name = str(thing.get("name", ""))
    for key, value in thing.items():
        if key not in known and schema.get("additionalProperties") is False:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f", did you mean '{near[0]}'?" if near else ""
            yield key, f"unknown key '{key}'{hint}; allowed: {', '.join(sorted(known))}"
        words = known.get(key, {}).get("enum")
        if words and value not in words:
            yield str(value), f"{key}: {value!r} found; allowed: {', '.join(map(str, words))}"
    for key in schema.get("required", []):
        if key not in thing:
            yield name, f"{name}: {key} missing" if name else f"{key} missing"
