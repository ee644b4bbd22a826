"""Rows of a JSON document as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence

from analysis.escape import cell


def csv_text(document: Mapping[str, object], path: Sequence[str]) -> str:
    """The list of objects at `path`, one line each under a header with all their keys.

    With two names in the path, rows of inner lists begin with the figures and texts around them.
    Lists and objects in a cell are JSON; unknown is empty.
    """
    rows = list(_rows(document, path))
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _rows(document: Mapping[str, object], path: Sequence[str]) -> Iterator[dict[str, object]]:
    first, *others = path
    found = document.get(first)
    for each in found if isinstance(found, list) else []:
        if not others:
            yield dict(each)
            continue
        around = {name: value for name, value in each.items() if _is_plain(value)}
        for row in _rows(each, others):
            yield {**around, **row}


def _is_plain(value: object) -> bool:
    return not isinstance(value, list | dict)


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return json.dumps(value)
    if value is None or isinstance(value, int | float):
        return value
    return cell(value if isinstance(value, str) else json.dumps(value, default=str))
