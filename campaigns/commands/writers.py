"""`nimc writers`: how many nodes receive a checkpoint at the same time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from analysis import units
from analysis.errors import InputError
from analysis.writers import (
    PAPER_NODE_MTTI_S,
    PAPER_SHARE,
    concurrent_writers,
    constant_writers,
    table_5,
    write_length_s,
)
from campaigns.document import Form, print_document
from campaigns.options import form_options, only_with
from campaigns.text import aligned, wrapped


@click.command()
@click.option("--nodes", default="64,512,1024,2048,4096,8192", show_default=True, metavar="N,N")
@click.option("--mtti", default="5y", show_default=True, help="Mean time to interrupt of a node.")
@click.option(
    "--write",
    default="1s",
    show_default=True,
    help="Length of one write: 1s, or '46k messages of 64KiB at 3.2GB/s'.",
)
@click.option("--paper", "published", is_flag=True, help="Table V, published and computed.")
@form_options
def command(nodes: str, mtti: str, write: str, published: bool, form: Form | None) -> None:
    """Compute concurrent writers of nodes that checkpoint uncoordinated at Daly's interval."""
    if published:
        only_with("--paper", "--json", "--csv")
    document, text = _table_5() if published else _rows(nodes, mtti, write)
    if form:
        print_document("writers", document, form)
    else:
        click.echo(wrapped(text))


def _rows(nodes: str, mtti: str, write: str) -> tuple[dict[str, Any], str]:
    counts = [units.count(part, "--nodes") for part in nodes.split(",")]
    node_mtti_s = units.duration_s(mtti, "--mtti")
    write_s = write_length_s(write, "--write")
    for field, value in (("--mtti", node_mtti_s), ("--write", write_s), ("--nodes", min(counts))):
        if not value > 0:
            raise InputError(f"{field}: {value:g} found; allowed: above 0")
    computed = [concurrent_writers(count, node_mtti_s, write_s) for count in counts]
    document = {
        "node_mtti_s": node_mtti_s,
        "write_s": write_s,
        "rows": [
            asdict(row) | {"constant_share_writers": constant_writers(row.nodes)}
            for row in computed
        ],
    }
    cells = [
        [
            f"{row.nodes}",
            f"{row.interval_s:.5g}",
            f"{row.concurrent_writers}",
            f"{row.concurrent_writers_exact:.2f}",
            f"{row.writes_per_s:.2f}",
            f"{constant_writers(row.nodes)}",
        ]
        for row in computed
    ]
    header = [
        "nodes",
        "interval (s)",
        "writers",
        "exact",
        "writes/s",
        f"constant {PAPER_SHARE:.1%}",
    ]
    text = aligned(header, cells)
    if beyond := [f"{row.nodes}" for row in computed if not row.in_range]:
        text += (
            "\nOut of range of Daly's series (a write takes twice the system's mean time to"
            " interrupt or more);\nthe interval is set to that time: nodes " + ", ".join(beyond)
        )
    return document, text


def _table_5() -> tuple[dict[str, Any], str]:
    nodes, columns = table_5()
    document = {
        "source": "Groves, Grant and Arnold 2016, Table V",
        "node_mtti_s": PAPER_NODE_MTTI_S,
        "nodes": nodes,
        "columns": [asdict(column) | {"agrees": column.agrees} for column in columns],
    }
    parts = ["Table V of the paper, mean time to interrupt of a node 5 years."]
    for column in columns:
        header = [column.name, *map(str, nodes)]
        rows = [
            ["published", *map(str, column.published)],
            ["computed", *map(str, column.computed)],
        ]
        verdict = "agrees" if column.agrees else "does not follow"
        parts.append(f"{aligned(header, rows)}\n  {verdict}: {column.how}")
    return document, "\n\n".join(parts)
