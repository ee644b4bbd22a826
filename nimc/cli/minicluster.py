"""The command `nimc minicluster`, which runs a real Slurm cluster on this host."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from analysis.display.document import Table
from nimc.cli.answer import Answer, prints_answer
from records.commands import command
from records.slurm.options import CONFIGURATION_VARIABLE
from records.units import plural
from testbed import cluster
from testbed.spec import STATE_VARIABLE, ClusterLayout, Fabric, Spec, default_state
from testbed.state import State

_state_option = click.option(
    "--state",
    "layout",
    type=click.Path(path_type=Path),
    metavar="DIR",
    envvar=STATE_VARIABLE,
    callback=lambda _ctx, _param, value: ClusterLayout.from_state(value or default_state()),
    help="Folder for the cluster's files [default: the one of the shell's env.sh, or one for each"
    " user].",
)


@click.group()
def minicluster_command() -> None:
    """A real Slurm cluster on this host, with namespaces or virtual machines as nodes.

    For tests only: the network is emulated, and all nodes share this host's cores, so its figures
    are not valid for any real machine.
    """


@minicluster_command.command()
@click.option(
    "--fabric",
    type=click.Choice(get_args(Fabric)),
    default="veth",
    help="Namespaces of this host, or virtual machines with soft-RoCE.",
)
@click.option("--nodes", default=4, help="Number of nodes.")
@click.option("--origins", default=1, help="Number of nodes that are origins.")
@click.option("--numa", default=1, help="NUMA nodes of a virtual machine.")
@click.option(
    "--cores",
    default=1,
    help="rxe: processors of each NUMA node. veth: cores of each node in the site file; 1 means its"
    " share of the host's cores.",
)
@click.option("--memory", "memory_mib", default=1024, help="Memory of a virtual machine, MiB.")
@click.option("--rails", default=1, help="Network interfaces of a node.")
@click.option(
    "--share",
    "shares",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Another folder that virtual machines may write to; may be repeated.",
)
@_state_option
@prints_answer()
def up(layout: ClusterLayout, **option_values: Any) -> Answer:
    """Start a cluster and print how to use it.

    A running cluster with the same options is not started again.
    """
    state, was_up = cluster.up(Spec(**option_values), layout)
    document = state.as_dict(layout) | {"was_up": was_up}
    return Answer(document, [_up_text(layout, state, was_up)], schema=2)


def _up_text(layout: ClusterLayout, state: State, was_up: bool) -> str:
    spec = state.spec
    fabric = f"{spec.fabric} ({state.accelerator})" if state.accelerator else spec.fabric
    outcome = "is already up" if was_up else f"up in {state.up_took_s:.1f} s"
    partitions = [f"{name}: {', '.join(nodes)}" for name, nodes in spec.partitions().items()]
    return (
        f"minicluster {outcome}: {plural(spec.nodes, 'node')}, fabric {fabric},"
        f" subnet {state.subnet}.0/24\n"
        f"partitions: {'; '.join(partitions)}\n"
        f"to use it:  . {layout.env_sh}\n"
        f"            (SLURM_CONF={layout.slurm_conf})\n"
        f"to stop it: {command('minicluster', 'down', '--state', layout.state)}"
    )


@minicluster_command.command()
@_state_option
@prints_answer()
def status(layout: ClusterLayout) -> Answer:
    """Show the state of a cluster. Exit code 3 unless all of it is up."""
    current = cluster.status(layout)
    document: dict[str, Any] = {"healthy": current.healthy}
    if current.state is None:
        document["state"] = str(layout.state)  # only the folder, since there is no cluster
    else:
        document |= {"state": current.state.as_dict(layout)}
        document |= {name: value for name, value in asdict(current).items() if name != "state"}
    return Answer(document, _status_parts(layout, current), 0 if current.healthy else 3, schema=2)


def _status_parts(layout: ClusterLayout, current: cluster.Status) -> list[str | Table]:
    if current.state is None:
        return [f"no minicluster in {layout.state}"]
    answer_text = {True: "answers", False: "does not answer"}
    rows = [
        [node.name, node.role, current.nodes[node.name], str(current.pids[node.name] or "off")]
        for node in current.state.spec.members()
    ]
    return [
        f"minicluster in {layout.state}: {current.state.phase}, fabric {current.state.spec.fabric}",
        f"slurmctld {answer_text[current.controller]}, slurmdbd {answer_text[current.accounting]}",
        Table(["node", "role", "Slurm says", "process"], rows),
    ]


@minicluster_command.command()
@_state_option
@prints_answer()
def down(layout: ClusterLayout) -> Answer:
    """Stop a cluster and remove all of its files and processes, even after a crash."""
    removed = cluster.down(layout)
    text = f"minicluster down: none was up in {layout.state}; --state DIR names another"
    if removed:
        text = (
            f"minicluster down: removed {', '.join(removed)}\n"
            f"in shells that used it: unset {CONFIGURATION_VARIABLE} {STATE_VARIABLE}"
        )
    return Answer({"state": str(layout.state), "removed": removed}, [text])
