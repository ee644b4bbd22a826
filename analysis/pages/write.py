"""Writes the pages, the data behind their figures, and the index of all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import polars as pl

from analysis.pages import across
from analysis.pages.data import MachineHistory, MadeChange, PageNight, calendar_nights, made_changes
from analysis.pages.render import index_page, machine_page, state_of
from analysis.samples.table_file import write_table
from nimc.base.files import make_folder, replace_text

#: Number of the schema of index.json.
INDEX_SCHEMA = 1
_PAGE, _DOCUMENT = "index.html", "index.json"
_ENDINGS = ("csv", "parquet")
#: Tables over all machines: their rows, and where `across.side_by_side` has them.
_TABLES: dict[str, tuple[type[Any], str]] = {
    "machines": (across.MachineFacts, "facts"),
    "triad": (across.Triad, "triads"),
    "rates": (across.CoreRates, "rates"),
    "slowdowns": (across.MachineSlowdown, "slowdowns"),
}
#: Files next to the machines' folders: no machine can have such a name.
FILES = (_PAGE, _DOCUMENT, *(f"{name}.{ending}" for name in _TABLES for ending in _ENDINGS))


def write_pages(output: Path, histories: Sequence[MachineHistory]) -> Path:
    """Write the page of each machine and that over all; returns the latter's path.

    Raises OSError, with its name, if a file cannot be written.
    """
    for history in histories:
        _write_machine(output / history.machine, history)
    return _write_index(output, histories)


def index_document(histories: Sequence[MachineHistory]) -> dict[str, Any]:
    """Keys: schema, machines, slowdowns, ranking, triad, rates (`docs/pages.md`)."""
    found = across.side_by_side(histories)
    machines = [
        asdict(state_of(history))
        | {
            "facts": asdict(fact),
            "alarms": [each.as_dict() for each in history.alarms],
            "watches": [each.as_dict() for each in history.watches],
        }
        for history, fact in zip(histories, found.facts, strict=False)
    ]
    return {
        "schema": INDEX_SCHEMA,
        "machines": machines,
        "slowdowns": [asdict(each) for each in found.slowdowns],
        "ranking": [asdict(each) for each in found.ranks],
        "triad": [asdict(each) for each in found.triads],
        "rates": [asdict(each) for each in found.rates],
    }


def _write_machine(folder: Path, history: MachineHistory) -> None:
    make_folder(folder)
    _write_table(folder / "nights", history.nights)
    _write_table(folder / "changes", _frame(MadeChange, made_changes(history.runs)))
    _write_table(folder / "calendar", _frame(PageNight, calendar_nights(history)))
    replace_text(folder / _PAGE, machine_page(history))


def _write_index(output: Path, histories: Sequence[MachineHistory]) -> Path:
    make_folder(output)
    found = across.side_by_side(histories)
    for name, (kind, rows) in _TABLES.items():
        _write_table(output / name, _frame(kind, getattr(found, rows)))
    replace_text(output / _DOCUMENT, json.dumps(index_document(histories), indent=1) + "\n")
    page = output / _PAGE
    replace_text(page, index_page(histories))
    return page


def _frame(kind: type[Any], rows: Iterable[Any]) -> pl.DataFrame:
    names = [each.name for each in fields(kind)]
    table = [[getattr(row, name) for name in names] for row in rows]
    return pl.DataFrame(table, schema=names, orient="row", infer_schema_length=None)


def _write_table(path: Path, frame: pl.DataFrame) -> None:
    for ending in _ENDINGS:
        write_table(path.with_name(f"{path.name}.{ending}"), frame)
