"""`nimc licence`: a number of writers at once that Slurm keeps, and what waiting for it costs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Literal, get_args

import click

from analysis.remedies.licence import Bound, Licence, bound, measure
from analysis.simulate.queue import Queue, queue
from analysis.subjects.writers import write_length_s
from nimc.base import units
from nimc.base.errors import InputError
from nimc.base.tables import aligned, wrapped
from nimc.cli.document import Form, show
from nimc.cli.options import RunPath, json_option, useless_without
from nimc.cluster.licence import job_submit_lua, slurm_conf

Part = Literal["slurm.conf", "job_submit.lua"]

_INSTALL = """\
install: nimc licence ... --part slurm.conf >> /etc/slurm/slurm.conf
         nimc licence ... --part job_submit.lua > /etc/slurm/job_submit.lua
         scontrol reconfigure
revert:  docs/licence.md"""


@click.command()
@click.argument("runs", nargs=-1, type=RunPath(), metavar="[RUN]...")
@click.option("--slowdown", metavar="SHARE", help="Largest slowdown that is wanted, such as 5%.")
@click.option("--licences", type=click.IntRange(1), help="This number, in place of runs.")
@click.option("--nodes", type=click.IntRange(1), help="Nodes that write: shows how long they wait.")
@click.option("--mtti", default="5y", show_default=True, help="Mean time to interrupt of a node.")
@click.option("--write", default="1s", show_default=True, help="Length of one write.")
@click.option(
    "--handover",
    default="0s",
    show_default=True,
    help="From the end of a stage-out to the start of the next one.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--part", type=click.Choice(get_args(Part)), help="Print only this file.")
@json_option
def licence_command(
    runs: tuple[Path, ...],
    slowdown: str | None,
    licences: int | None,
    nodes: int | None,
    mtti: str,
    write: str,
    handover: str,
    seed: int,
    part: Part | None,
    form: Form | None,
) -> None:
    """Bound the writers at once by licences of Slurm, from measured slowdowns.

    Exits with 1 if not even the smallest measured number is within the wanted slowdown.
    """
    if nodes is None:
        useless_without("--nodes", "--mtti", "--write", "--handover", "--seed")
    wanted, found = _bound(runs, slowdown, licences)
    waiting = None
    if nodes is not None and found.writers:
        handover_s = units.duration_s(handover, "--handover")
        node_mtti_s, write_s = units.duration_s(mtti, "--mtti"), write_length_s(write, "--write")
        waiting = queue(nodes, node_mtti_s, write_s, handover_s, found.writers, seed)
    files: dict[Part, str] = {}
    if found.writers:
        files = {"slurm.conf": slurm_conf(found.writers), "job_submit.lua": job_submit_lua()}
    licence = Licence(wanted, found, waiting, files.get("slurm.conf"), files.get("job_submit.lua"))
    if form or not (part and files):
        show("licence", asdict(licence), form, _text(licence, files))
    else:
        click.echo(files[part], nl=False)
    if not found.writers:
        sys.exit(1)


def _bound(
    runs: tuple[Path, ...], slowdown: str | None, licences: int | None
) -> tuple[float | None, Bound]:
    if licences is not None:
        if runs or slowdown:
            raise InputError("--licences: cannot be combined with RUN and --slowdown")
        return None, Bound(licences, "given, not measured", [], [])
    if not runs or slowdown is None:
        raise InputError("RUN and --slowdown: missing; allowed: both, or --licences")
    wanted = 1 + units.share(slowdown, "--slowdown")
    return wanted, bound(measure(runs, wanted), wanted)


def _text(licence: Licence, files: dict[Part, str]) -> str:
    found = licence.bound
    number = f"{found.writers} writers at once" if found.writers else "no number of writers fits"
    lines = [f"{number}: {found.reason}", *(f"caveat: {each}" for each in found.caveats)]
    if found.measured:
        header = ["writers", "nodes", "case", "slowdown", "upper limit", "fits"]
        cells = [
            [
                *(str(each.writers), str(each.nodes), each.case),
                *(f"{each.slowdown:.3f}", f"{each.slowdown_high:.3f}"),
                "yes" if each.fits else "no",
            ]
            for each in found.measured
        ]
        lines += ["", aligned(header, cells, left=(2,)), ""]
    if licence.queue:
        lines.append(_waiting(licence.queue))
    text = wrapped("\n".join(lines))
    if files:
        parts = [f"---- {name} ----\n{content}" for name, content in files.items()]
        text = "\n".join([text, _INSTALL, "", *parts])
    return text


def _waiting(of: Queue) -> str:
    arrive = (
        f"simulated: {of.nodes} nodes start {of.arrivals_per_s:.3g} writes of {of.write_s:g} s per"
        f" second, {of.writers_unbounded:.3g} at once on average without a bound;"
        f" licences are taken {100 * of.utilisation:.1f} % of the time"
    )
    if of.wait_mean_s is None or of.wait_95_s is None:
        return f"{arrive}: more arrive than the licences let pass, and the queue grows without end"
    return (
        f"{arrive}; they wait {of.wait_mean_s:.3g} s on average, 95 % at most {of.wait_95_s:.3g} s"
    )
