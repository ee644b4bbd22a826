"""JSON Schemas of what a run consists of and of its results, from the records' definitions.

`python -m nimc.crate.schemas` writes docs/schemas/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from inspect import getsource
from types import GenericAlias, NoneType
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from analysis.compare.sides import Comparison
from analysis.effects.contrasts import Contrast
from analysis.effects.result import Result
from analysis.statistics.interval import json_keys
from records.checkout import ROOT
from records.files import make_folder, replace_text
from records.injected import Injection
from records.machine.host import Host
from records.run import RunHeader
from records.sample import NodesRow, Sample

FOLDER = ROOT / "docs" / "schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


_typed: Any = TypedDict

#: A comment above fields, and the fields that share it.
_COMMENTED = re.compile(r"((?:^    #:.*\n)+)((?:^    \w+:.*\n)+)", re.MULTILINE)


def _comments(kind: type[Any]) -> dict[str, str]:
    """Key in JSON -> the comment (`#:`) of the record's field."""
    texts: dict[str, str] = {}
    bases = [base for base in reversed(kind.__mro__) if is_dataclass(base)]
    for comment, below in _COMMENTED.findall("".join(map(getsource, bases or [kind]))):
        text = " ".join(re.findall(r"#: (.*)", comment))
        texts |= dict.fromkeys(re.findall(r"^    (\w+):", below, re.MULTILINE), text)
    return {key: texts[name] for key, (name, _) in json_keys(kind).items() if name in texts}


def _records(kind: Any) -> Iterator[type[Any]]:
    """The records that a definition names, itself included."""
    if isinstance(kind, type) and is_dataclass(kind):
        yield kind
        for hint in get_type_hints(kind).values():
            yield from _records(hint)
    for part in get_args(kind):
        yield from _records(part)


def _flat(kind: type[Any]) -> Any:
    """A record as JSON has it (`analysis.statistics.interval.flat_record`)."""
    types = get_type_hints(kind, include_extras=True)
    numbers = {name: float | None if NoneType in get_args(types[name]) else float for name in types}
    flat = {
        key: numbers[name] if part else types[name] for key, (name, part) in json_keys(kind).items()
    }
    return _typed(kind.__name__, flat)


def _rows(kind: type[Any]) -> Any:
    return GenericAlias(list, (_flat(kind),))


#: One run in results.json (`analysis.report.data.RunData.document`).
_RUN_RESULTS = _typed(
    "RunResults",
    {
        "machine": str,
        "campaign": str,
        "run": str,
        "head": str | None,
        "results": _rows(Result),
        "contrasts": _rows(Contrast),
        "integrity_faults": list[str],
    },
)
#: Records that are flat in JSON.
_FLAT = (Result, Contrast, Comparison)
#: The document results.json of a report.
_RESULTS = _typed(
    "Results", {"schema": int, "machine": str, "runs": GenericAlias(list, (_RUN_RESULTS,))}
)
#: Keys that commands add to their document.
_NUMBERED = {
    "schema": {
        "type": "integer",
        "description": "Number of the schema (docs/command-line.md#json).",
    }
}
#: Name -> where such a record is, its definition, and the fields that its writer adds.
SCHEMAS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "run": ("run.json", RunHeader, {}),
    "sample": (
        "a line of samples/CASE.jsonl",
        Sample,
        {
            "chain": {
                "type": "string",
                "pattern": "^[0-9a-f]{64}$",
                "description": "Value of the sample (docs/data.md#the-chain).",
            }
        },
    ),
    "counter": (
        "a line of counters/CASE.jsonl",
        NodesRow,
        {
            "key": {"type": "string", "description": "That of the sample."},
            "tool": {"type": "string", "description": "Tool that counted (docs/tools.md)."},
        },
    ),
    "host": (
        "facts.host of run.json, and one of the nodes of a provenance record",
        Host,
        {
            "absent_counters": {
                "type": "object",
                "description": "Of a node: source of counters without any -> what it needs.",
            }
        },
    ),
    "results": ("report/results.json", _RESULTS, {}),
    "injection": ("the record of nimc inject", Injection, {}),
    "comparison": ("a row of 'comparisons' of nimc compare --json", _flat(Comparison), {}),
}


def schema_of(name: str) -> dict[str, Any]:
    """The schema of a record; fields that it does not name are allowed, as later versions add."""
    title, kind, added = SCHEMAS[name]
    schema = TypeAdapter(kind).json_schema()
    definitions = {**schema.get("$defs", {}), kind.__name__: schema}
    for record in (part for source in (kind, *_FLAT) for part in _records(source)):
        if shown := definitions.get(record.__name__):
            for key, text in _comments(record).items():
                shown["properties"][key]["description"] = text
    schema["properties"] |= added
    return {
        "$schema": _DIALECT,
        "title": title,
        **{k: v for k, v in schema.items() if k != "title"},
    }


def text_of(name: str) -> str:
    """The schema as it is written to docs/schemas/."""
    return json.dumps(schema_of(name), indent=1) + "\n"


def main() -> None:
    """Write all of them."""
    make_folder(FOLDER)
    for name in SCHEMAS:
        replace_text(FOLDER / f"{name}.json", text_of(name))


if __name__ == "__main__":
    main()
