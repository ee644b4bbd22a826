"""The commands `nimc simulate` and `nimc writers`.

They compute slowdowns at larger scales, and numbers of concurrent writers. 'The paper' and
'published' mean Groves, Grant and Arnold 2016.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import click

from analysis.display.document import Table
from analysis.display.lines import wrapped
from analysis.simulate import STEP_S, STEPS, WRITE_S, Application, explain_published_slowdown, run_s
from analysis.subjects.table_5 import table_5
from nimc.cli import options
from nimc.cli.answer import Answer, prints_answer
from records import units
from records.daly import (
    PAPER_MTTI_S,
    PAPER_WRITER_SHARE,
    concurrent_writers,
    daly_rule_text,
    parse_write,
)
from records.errors import InputError
from records.units import percentage, plural


@click.command()
@click.option(
    "--ranks", default="64,1024,8192", metavar="N,N", help="Numbers of ranks to simulate."
)
@click.option("--ranks-per-node", type=click.IntRange(1), default=16, help="Ranks on each node.")
@click.option(
    "--worst",
    "worst_slowdown",
    type=float,
    help="Slowdown of the slowest rank on a target node.",
)
@click.option(
    "--writers",
    metavar="N|SHARE|daly",
    default="daly",
    help="Writes in progress: a number, a share of the ranks such as 0.2%, or daly (see writers).",
)
@click.option(
    "--paper",
    "published",
    is_flag=True,
    help="Show how much of the published slowdown the published figures explain.",
)
@prints_answer()
def simulate_command(
    ranks: str, ranks_per_node: int, worst_slowdown: float | None, writers: str, published: bool
) -> Answer:
    """Simulate the slowdown of a synchronised application from that of a single node."""
    if published:
        options.allow_only("--paper", "--json")
        document = explain_published_slowdown()
        return Answer(document, _published_parts(document), schema=3)
    document, parts = _simulate(ranks, ranks_per_node, worst_slowdown, writers)
    return Answer(document, parts, schema=4)


def _simulate(
    ranks: str, ranks_per_node: int, worst_slowdown: float | None, writers: str
) -> tuple[dict[str, Any], list[str | Table]]:
    """Return the JSON document and the parts of the text of a simulation. Raises InputError."""
    if worst_slowdown is None:
        raise InputError(
            "--worst: missing; allowed: the measured slowdown of a target's slowest rank"
        )
    if not 1 <= worst_slowdown < math.inf:
        raise InputError(f"--worst: {worst_slowdown:g} found; allowed: a number from 1")
    rows = []
    for rank_count in ranks.split(","):
        application = Application(units.count(rank_count, "--ranks"), ranks_per_node, STEPS, STEP_S)
        writer_count = _writer_count(writers, application.ranks)
        if writer_count > application.nodes:
            raise InputError(
                f"--writers: {writer_count} on {plural(application.nodes, 'node')};"
                " allowed: one a node at most"
            )
        on_s = run_s(application, writer_count, worst_slowdown)
        row = {
            "ranks": application.ranks,
            "nodes": application.nodes,
            "writers": writer_count,
            "slowdown": on_s / application.off_s,
            "on_s": on_s,
            "off_s": application.off_s,
        }
        rows.append(row)
    model = {
        "worst_rank_slowdown": worst_slowdown,
        "ranks_per_node": ranks_per_node,
        "steps": STEPS,
        "step_s": STEP_S,
        "writers": writers,
        "mtti_s": PAPER_MTTI_S,
        "write_s": WRITE_S,
    }
    size_columns = ("ranks", "nodes", "writers")
    table_rows = [
        [*(str(row[name]) for name in size_columns), f"{row['slowdown']:.3f}"] for row in rows
    ]
    parts: list[str | Table] = [Table([*size_columns, "slowdown"], table_rows)]
    if writers == "daly":
        parts.append(wrapped(daly_rule_text(PAPER_MTTI_S, WRITE_S)))
    return {"model": model, "rows": rows}, parts


def _writer_count(writers: str, ranks: int) -> int:
    """Return the number of writers that a value of the option `--writers` means for `ranks` ranks.

    Raises InputError.
    """
    if writers == "daly":
        return concurrent_writers(ranks, PAPER_MTTI_S, WRITE_S).concurrent_writers
    if writers.endswith("%"):
        return round(ranks * units.share(writers, "--writers"))
    return units.count(writers, "--writers")


def _published_parts(paper: dict[str, Any]) -> list[str | Table]:
    """Return the parts of a text about how much of the published slowdowns the model explains."""
    keys = ("column", "ranks", "nodes", "writers_published")
    table_rows = [
        [*(str(row[key]) for key in keys), f"{row['slowdown_modelled_worst_rank']:.2f}"]
        for row in paper["rows"]
    ]
    introduction = (
        f"Published: LAMMPS slowed {paper['single_node_slowdown_published']:.2f} times on one node"
        " (mean of 10 runs). Modelled, with the published writers all the time and steps of"
        f" {1000 * paper['step_s_assumed']:g} ms (assumed):"
    )
    table = Table(["writers of", "ranks", "nodes", "writers", "slowdown"], table_rows)
    share_title = (
        "Of the slowdown published at scale with Daly's writers (minimum of 5 runs), the model"
        " explains"
    )
    readings = [
        f"- read as {reading['slowdown']:.1f} ({reading['meaning']}):"
        f" {percentage(reading['explained_share_of_excess'], '.1f')} of the excess over 1"
        for reading in paper["readings"]
    ]
    return [wrapped(introduction), "", table, "", *map(wrapped, [share_title, *readings])]


# `nimc writers` computes how many ranks write a checkpoint at the same time.


@click.command()
@click.option(
    "--ranks", default="64,512,1024,2048,4096,8192", metavar="N,N", help="Numbers of ranks."
)
@click.option(
    "--mtti",
    "mtti_s",
    type=options.DURATION,
    default="5y",
    help="Mean time to interrupt of a rank.",
)
@click.option(
    "--write",
    default="1s",
    metavar="LENGTH",
    help="Length of one write: 1s, or '46k messages of 64KiB at 3GB/s'.",
)
@click.option("--paper", "published", is_flag=True, help="Show Table V, published and computed.")
@prints_answer()
def writers_command(ranks: str, mtti_s: float, write: str, published: bool) -> Answer:
    """Compute how many ranks write at once if each checkpoints on its own at Daly's interval."""
    if published:
        options.allow_only("--paper", "--json")
        document, parts = _table_5()
        return Answer(document, parts, schema=2)
    rank_counts = [units.count(text, "--ranks") for text in ranks.split(",")]
    write_s = parse_write(write, "--write").length_at(None, "--write")
    rows = [concurrent_writers(count, mtti_s, write_s) for count in rank_counts]
    header = [
        "ranks",
        "interval (s)",
        "daly",
        "exact",
        "writes/s",
        f"constant {percentage(PAPER_WRITER_SHARE, '.1f')}",
    ]
    table_rows = [
        [
            f"{row.counted}",
            f"{row.interval_s:.5g}",
            f"{row.concurrent_writers}",
            f"{row.concurrent_writers_exact:.2f}",
            f"{row.writes_per_s:.2f}",
            f"{row.constant_share_writers}",
        ]
        for row in rows
    ]
    document = {"mtti_s": mtti_s, "write_s": write_s, "rows": list(map(asdict, rows))}
    notes = [daly_rule_text(mtti_s, write_s)]
    if out_of_range := [f"{row.counted}" for row in rows if not row.in_range]:
        notes.append(
            "Out of range of Daly's series (a write takes twice the system's mean time to"
            " interrupt or more);\n"
            f"the interval is set to that time: ranks {', '.join(out_of_range)}"
        )
    return Answer(document, [Table(header, table_rows), *map(wrapped, notes)], schema=2)


def _table_5() -> tuple[dict[str, Any], list[str | Table]]:
    """Return the JSON document and the parts of the text of Table V, published and computed."""
    ranks, columns = table_5()
    document = {
        "source": "Groves, Grant and Arnold 2016, Table V",
        "mtti_s": PAPER_MTTI_S,
        "ranks": ranks,
        "columns": [asdict(column) | {"agrees": column.agrees} for column in columns],
    }
    parts: list[str | Table] = ["Table V of the paper, mean time to interrupt of a rank 5 years."]
    for column in columns:
        rows = {"published": column.published, "computed": column.computed}
        table_rows = [[name, *map(str, writers)] for name, writers in rows.items()]
        verdict = "agrees" if column.agrees else "does not follow"
        table = Table([column.name, *map(str, ranks)], table_rows)
        parts += ["", table, wrapped(f"  {verdict}: {column.how}")]
    return document, parts
