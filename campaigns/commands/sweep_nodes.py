"""`nimc sweep-nodes`: one single-node campaign on every node, and the nodes ranked."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from analysis.errors import InputError
from analysis.escape import one_line, visible
from analysis.node_ranks import RankedNode, figures, ranked
from analysis.numbers import NONE, interval, quantity
from analysis.report.data import load_run
from campaigns.document import Form, print_document
from campaigns.host.settings import settings_of, target_partitions
from campaigns.host.slurm_nodes import SlurmNode, ask_nodes, partition_in
from campaigns.options import (
    Progress,
    campaign_argument,
    form_options,
    machine_option,
    progress_options,
    results_option,
)
from campaigns.planning.prepare import Request, prepare
from campaigns.running.folder import locked
from campaigns.running.header import new_header
from campaigns.running.interrupts import Interrupts, Stopped
from campaigns.running.node_sweep import (
    NodeSweep,
    NodeSweeper,
    finish,
    finished_run,
    open_sweep,
    save_sweep,
)
from campaigns.text import aligned


@click.command()
@campaign_argument
@machine_option
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="Most allocations that are queued or running at once.",
)
@click.option("--nodes", metavar="N,N", help="Only these. Default: all usable of the partition.")
@results_option
@click.option("--fresh", is_flag=True, help="Start a new sweep even if there is an unfinished one.")
@form_options
@progress_options
def command(
    campaign: Path,
    machine: str,
    jobs: int,
    nodes: str | None,
    results: Path,
    fresh: bool,
    form: Form | None,
    progress: Progress,
) -> int:
    """Run CAMPAIGN, whose cases have one node each, on every node, and rank the nodes.

    Resumes an unfinished sweep. The exit code is 1 if a node is slower than the others, 3 if one
    could not be measured.
    """
    asked = prepare(campaign, machine)
    _check(asked)
    listed = _listed(asked, nodes)
    used = [each.name for each in listed if each.usable]
    if not used:
        raise InputError(f"machine {machine!r}: no usable node: {_states(listed) or 'none listed'}")
    sweep = NodeSweep(asked.campaign.name, machine, new_header(asked).digest, used, time.time())
    among = [each.name for each in listed]
    folder, sweep = open_sweep(results.absolute(), sweep, among, fresh=fresh)
    remark = _silent if progress == "quiet" else _log
    remark(f"{folder}: {len(sweep.nodes)} nodes")
    if unusable := [each for each in listed if not each.usable]:
        remark(f"not usable: {_states(unusable)}")
    with locked(folder):
        save_sweep(folder, sweep)
        try:
            with Interrupts() as interrupts:
                verbose = progress == "verbose"
                failed = NodeSweeper(
                    folder, sweep, campaign.absolute(), jobs, interrupts, remark, verbose=verbose
                ).run_all()
        except Stopped as stop:
            _log(f"stopped by {stop}; the same command resumes")
            return 128 + stop.signum
        if not failed:
            finish(folder, sweep)
    return _conclude(folder, sweep, failed, asked.campaign.margin, form)


def _check(asked: Request) -> None:
    """Raise InputError unless every case is one job on one node."""
    if not asked.site.slurm:
        raise InputError(f"machine {asked.site.machine!r}: has no Slurm, so no nodes to choose")
    for case in asked.campaign.cases:
        if case.nodes != 1:
            raise InputError(f"case '{case.name}': has {case.nodes} nodes; allowed: 1")


def _listed(asked: Request, nodes: str | None) -> list[SlurmNode]:
    """Nodes of the targets' partition with their states; of `nodes`, those that are named."""
    settings = settings_of(asked.site.config)
    first = target_partitions(settings.partitions, asked.site.partition)[0]
    partition = partition_in(first.get("access") or [])
    found = ask_nodes(partition, settings.environment)
    if nodes is None:
        return found
    known = {each.name: each for each in found}
    wanted = list(dict.fromkeys(nodes.split(",")))
    for name in wanted:
        if name not in known:
            raise InputError(
                f"--nodes: {name!r} is not in partition {partition or 'default'}; allowed:"
                f" {', '.join(known)}"
            )
    return [known[name] for name in wanted]


def _states(nodes: Sequence[SlurmNode]) -> str:
    return ", ".join(f"{each.name} ({each.state})" for each in nodes)


def _conclude(
    folder: Path, sweep: NodeSweep, failed: Mapping[str, str], margin: float, form: Form | None
) -> int:
    runs = {node: finished_run(folder, node) for node in sweep.nodes}
    measured = {node: run for node, run in runs.items() if run is not None}
    found = [each for node, run in measured.items() for each in figures(node, load_run(run))]
    rows = ranked(found, margin)
    if form:
        document = {
            "machine": sweep.machine,
            "campaign": sweep.campaign,
            "sweep": str(folder),
            "nodes": [row.as_dict() for row in rows],
            "failed": dict(failed),
        }
        print_document("sweep-nodes", document, form)
    else:
        click.echo(visible(_table(rows)))
        for node, why in failed.items():
            click.echo(visible(f"{node}: not measured: {why}"))
    if failed:
        return 3
    return int(any(row.text.startswith("slower") for row in rows))


def _table(rows: Sequence[RankedNode]) -> str:
    header = ["case", "node", "runs", "figure of merit", "time ratio", "interval", "adjusted p", ""]
    return aligned(header, [_cells(row) for row in rows])


def _cells(row: RankedNode) -> list[str]:
    ratio = NONE if row.ratio is None else f"{row.ratio:.3f}"
    p = NONE if row.p_adjusted is None else f"{row.p_adjusted:.2g}"
    bounds = interval(row.ratio_low, row.ratio_high)
    value = quantity(row.value, row.unit)
    return [row.case, row.node, str(row.runs), value, ratio, bounds, p, row.text]


def _silent(text: str) -> None:
    """Print nothing; nodes that could not be measured are listed at the end."""


def _log(text: str) -> None:
    click.echo(f"nimc: {one_line(text)}", err=True)
