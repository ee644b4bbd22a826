"""JSON Schemas of what a run consists of and of its results, from the records' definitions.

`python -m nimc.crate.schemas` writes docs/schemas/.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from analysis.compare.sides import Comparison
from analysis.effects.carry_over import OrderEffect
from analysis.effects.contrasts import Contrast
from analysis.effects.estimate import Result
from nimc.base.checkout import ROOT
from nimc.base.files import make_folder, replace_text
from nimc.records.counter_row import CounterRow
from nimc.records.run import RunHeader
from nimc.records.sample import Sample

FOLDER = ROOT / "docs" / "schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class RunResults:
    """One run in results.json (`analysis.report.data.RunData.document`)."""

    machine: str
    campaign: str
    run: str
    head: str | None
    results: list[Result]
    contrasts: list[Contrast]
    order_effects: list[OrderEffect]
    integrity_faults: list[str]


@dataclass(frozen=True)
class Results:
    """The document results.json of a report."""

    schema: int
    machine: str
    runs: list[RunResults]


#: Name -> where such a record is, its definition, and the fields that its writer adds.
SCHEMAS: dict[str, tuple[str, type[Any], dict[str, Any]]] = {
    "run": ("run.json", RunHeader, {}),
    "sample": (
        "a line of samples/CASE.jsonl",
        Sample,
        {"chain": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    ),
    "counter": (
        "a line of counters/CASE.jsonl",
        CounterRow,
        {"key": {"type": "string"}, "tool": {"type": "string"}},
    ),
    "results": ("report/results.json", Results, {}),
    "comparison": ("a row of 'comparisons' of nimc compare --json", Comparison, {}),
}


def schema_of(name: str) -> dict[str, Any]:
    """The schema of a record; fields that it does not name are allowed, as later versions add."""
    where, kind, added = SCHEMAS[name]
    schema = TypeAdapter(kind).json_schema()
    schema["properties"] |= added
    return {
        "$schema": _DIALECT,
        "title": where,
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
