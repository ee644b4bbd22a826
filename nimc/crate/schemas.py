"""Makes JSON Schemas of a run's files and results, from the classes of their records.

`python -m nimc.crate.schemas` writes them to docs/schemas/.
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


#: `TypedDict`, called with fields that are known only at run time. Its type is `Any`, since type
#: checkers do not accept such calls.
_typed_dict: Any = TypedDict

#: A comment (`#:`) above fields of a class, and the fields below it, to all of which it belongs.
_COMMENTED_FIELDS = re.compile(r"((?:^    #:.*\n)+)((?:^    \w+:.*\n)+)", re.MULTILINE)


def _comments(record: type[Any]) -> dict[str, str]:
    """Return key in JSON -> comment (`#:`) above the field of a record (a dataclass)."""
    bases = [base for base in reversed(record.__mro__) if is_dataclass(base)]
    source = "".join(map(getsource, bases or [record]))
    comment_by_field: dict[str, str] = {}
    for comment, fields in _COMMENTED_FIELDS.findall(source):
        text = " ".join(re.findall(r"#: (.*)", comment))
        for field in re.findall(r"^    (\w+):", fields, re.MULTILINE):
            comment_by_field[field] = text
    return {
        key: comment_by_field[field]
        for key, (field, _) in json_keys(record).items()
        if field in comment_by_field
    }


def _records(definition: Any) -> Iterator[type[Any]]:
    """Yield the records (dataclasses) that occur in a type, which may be a record itself."""
    if isinstance(definition, type) and is_dataclass(definition):
        yield definition
        for hint in get_type_hints(definition).values():
            yield from _records(hint)
    for argument in get_args(definition):
        yield from _records(argument)


def _flat(record: type[Any]) -> Any:
    """Return the type of a record that is flat in JSON.

    In a flat record, each part of an interval is a number with a key of its own
    (`analysis.statistics.interval.flat_record`).
    """
    types = get_type_hints(record, include_extras=True)
    types_by_key: dict[str, Any] = {}
    for key, (field, part) in json_keys(record).items():
        is_optional = NoneType in get_args(types[field])
        if not part:
            types_by_key[key] = types[field]
        else:
            types_by_key[key] = float | None if is_optional else float
    return _typed_dict(record.__name__, types_by_key)


def _list_of_flat(record: type[Any]) -> Any:
    return GenericAlias(list, (_flat(record),))


#: Type of one run in results.json (`analysis.report.data.RunData.document`).
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
#: Type of the document results.json of a report.
_RESULTS = _typed_dict(
    "Results", {"schema": int, "machine": str, "runs": GenericAlias(list, (_RUN_RESULTS,))}
)
#: Name of a schema -> where its records are found, their type, and the schemas of fields that are
#: not in the type, but are added when a record is written.
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
    """Return the schema `name`. It allows further fields, since later versions may add fields."""
    title, definition, added_fields = SCHEMAS[name]
    schema = TypeAdapter(definition).json_schema()
    schemas_by_record = {**schema.get("$defs", {}), definition.__name__: schema}
    for record_type in (definition, *_FLAT):
        for record in _records(record_type):
            if record_schema := schemas_by_record.get(record.__name__):
                for key, comment in _comments(record).items():
                    record_schema["properties"][key]["description"] = comment
    schema["properties"] |= added_fields
    schema.pop("title", None)
    return {"$schema": _DIALECT, "title": title, **schema}


def text_of(name: str) -> str:
    """Return the content of a schema's file in docs/schemas/."""
    return json.dumps(schema_of(name), indent=1) + "\n"


def main() -> None:
    """Write the files of all schemas to docs/schemas/."""
    make_folder(FOLDER)
    for name in SCHEMAS:
        replace_text(FOLDER / f"{name}.json", text_of(name))


if __name__ == "__main__":
    main()
