"""JSON Schemas of the files of a run and of its results, made from the definitions of records.

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


#: `TypedDict` for fields that are known only at run time, which type checkers do not accept.
_typed_dict: Any = TypedDict

#: A comment above fields, and the fields that share it.
_COMMENTED_FIELDS = re.compile(r"((?:^    #:.*\n)+)((?:^    \w+:.*\n)+)", re.MULTILINE)


def _comments(kind: type[Any]) -> dict[str, str]:
    """Return key in JSON -> the comment (`#:`) of the record's field."""
    bases = [base for base in reversed(kind.__mro__) if is_dataclass(base)]
    source = "".join(map(getsource, bases or [kind]))
    comment_by_field: dict[str, str] = {}
    for comment, fields in _COMMENTED_FIELDS.findall(source):
        text = " ".join(re.findall(r"#: (.*)", comment))
        for field in re.findall(r"^    (\w+):", fields, re.MULTILINE):
            comment_by_field[field] = text
    return {
        key: comment_by_field[field]
        for key, (field, _) in json_keys(kind).items()
        if field in comment_by_field
    }


def _records(kind: Any) -> Iterator[type[Any]]:
    """Yield the records that a definition names, itself included."""
    if isinstance(kind, type) and is_dataclass(kind):
        yield kind
        for hint in get_type_hints(kind).values():
            yield from _records(hint)
    for part in get_args(kind):
        yield from _records(part)


def _flat(kind: type[Any]) -> Any:
    """Return a record's type in JSON (`analysis.statistics.interval.flat_record`).

    There the parts of an interval are numbers with a key each.
    """
    types = get_type_hints(kind, include_extras=True)
    types_by_key: dict[str, Any] = {}
    for key, (field, part) in json_keys(kind).items():
        is_optional = NoneType in get_args(types[field])
        if not part:
            types_by_key[key] = types[field]
        else:
            types_by_key[key] = float | None if is_optional else float
    return _typed_dict(kind.__name__, types_by_key)


def _list_of_flat(kind: type[Any]) -> Any:
    return GenericAlias(list, (_flat(kind),))


#: A run in results.json (`analysis.report.data.RunData.document`).
_RUN_RESULTS = _typed_dict(
    "RunResults",
    {
        "machine": str,
        "campaign": str,
        "run": str,
        "head": str | None,
        "results": _list_of_flat(Result),
        "contrasts": _list_of_flat(Contrast),
        "integrity_faults": list[str],
    },
)
#: Records that are flat in JSON.
_FLAT = (Result, Contrast, Comparison)
#: The document results.json of a report.
_RESULTS = _typed_dict(
    "Results", {"schema": int, "machine": str, "runs": GenericAlias(list, (_RUN_RESULTS,))}
)
#: Name of a schema -> where its records are, their definition, and fields that their writer adds.
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
    """Return the schema of a record. It allows further fields, which later versions may add."""
    title, kind, added_fields = SCHEMAS[name]
    schema = TypeAdapter(kind).json_schema()
    definitions = {**schema.get("$defs", {}), kind.__name__: schema}
    for source in (kind, *_FLAT):
        for record in _records(source):
            if definition := definitions.get(record.__name__):
                for key, comment in _comments(record).items():
                    definition["properties"][key]["description"] = comment
    schema["properties"] |= added_fields
    schema.pop("title", None)
    return {"$schema": _DIALECT, "title": title, **schema}


def text_of(name: str) -> str:
    """Return the text of the file of a schema in docs/schemas/."""
    return json.dumps(schema_of(name), indent=1) + "\n"


def main() -> None:
    """Write all schemas."""
    make_folder(FOLDER)
    for name in SCHEMAS:
        replace_text(FOLDER / f"{name}.json", text_of(name))


if __name__ == "__main__":
    main()
