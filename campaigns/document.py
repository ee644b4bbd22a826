"""The JSON documents that commands print, each with the number of its schema (docs/json.md).

The list in a document that is its table can be printed as CSV instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

import click

from campaigns.csv_rows import csv_text

#: How a command prints its figures, if not as text.
Form = Literal["json", "csv"]

#: Command -> number of its document's schema, raised if a key goes or changes its meaning.
SCHEMAS: dict[str, int] = {
    "advise": 1,
    "alarms": 1,
    "compare": 1,
    "doctor": 1,
    "minicluster down": 1,
    "minicluster status": 1,
    "minicluster up": 1,
    "model evaluate": 2,
    "model fit": 2,
    "model predict": 1,
    "model recommend": 1,
    "model slowdown": 1,
    "nightly run": 1,
    "nightly status": 1,
    "origins create": 1,
    "origins show": 1,
    "pages": 1,
    "plan": 1,
    "remedy list": 1,
    "remedy show": 1,
    "report": 1,
    "run": 1,
    "runs": 1,
    "simulate": 1,
    "spack build": 1,
    "spack info": 1,
    "spack mirror": 1,
    "spack setup": 1,
    "store add": 1,
    "store check": 1,
    "store prune": 1,
    "sweep-nodes": 1,
    "writers": 1,
}


#: Command -> where its document has the rows of its table: names of keys, the outer one first. The
#: first that is there is taken, since options change a document.
TABLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "advise": (("advice", "remedies"),),
    "alarms": (("watched",),),
    "compare": (("comparisons",),),
    "doctor": (("findings",),),
    "model evaluate": (("placements",),),
    "model predict": (("placements", "points"),),
    "model recommend": (("placements",),),
    "model slowdown": (("workloads",),),
    "nightly status": (("nights",),),
    "plan": (("cases",),),
    "remedy list": (("remedies",),),
    "report": (("reports", "runs", "results"),),
    "run": (("results",),),
    "runs": (("runs",),),
    "simulate": (("rows",),),
    "spack build": (("environments", "specs"),),
    "spack info": (("environments", "specs"),),
    "sweep-nodes": (("nodes",),),
    "writers": (("rows",), ("columns",)),
}


def print_document(command: str, document: Mapping[str, object], form: Form = "json") -> None:
    """Print a command's document, its schema first; or its table as CSV."""
    if form == "csv":
        path = next((each for each in TABLES[command] if each[0] in document), TABLES[command][0])
        click.echo(csv_text(document, path), nl=False)
    else:
        click.echo(json.dumps({"schema": SCHEMAS[command], **document}, indent=1))
