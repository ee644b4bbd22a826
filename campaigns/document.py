"""The JSON documents that commands print, each with the number of its schema (docs/json.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

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


def print_document(command: str, document: Mapping[str, object]) -> None:
    """Print a command's document, its schema first."""
    click.echo(json.dumps({"schema": SCHEMAS[command], **document}, indent=1))
