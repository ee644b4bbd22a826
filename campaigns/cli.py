"""The `nimc` command: finds the subcommand, and turns failures into one line and an exit code."""

from __future__ import annotations

import importlib
import sys

import click

from analysis.errors import NimcError

#: Subcommand -> one line of help. Each is a module of `campaigns.commands`, loaded when called.
COMMANDS: dict[str, str] = {
    "doctor": "what works on this host, and how to get what is missing",
    "report": "one self-contained HTML page a machine, and its data",
    "compare": "nights against reference nights, or two machines, side by side",
    "plan": "the cases, nodes, node-hours and ReFrame commands; runs nothing",
    "run": "runs or resumes a campaign, prints the table and the report's path",
    "writers": "concurrent writers from Daly's checkpoint interval",
    "model": "the contention model: fit, predict, evaluate, recommend",
    "simulate": "slowdown at scales beyond the machines at hand",
    "origins": "reservation of origin nodes: create, show, remove",
    "minicluster": "a Slurm cluster on this machine: up, status, down",
    "spack": "workloads and tools built with Spack: setup, build, mirror, info",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"campaigns.commands.{name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="nimc")
def cli() -> None:
    """Measure network-induced memory contention on a machine."""


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 negative result, 2 invalid input, 3 failure."""
    try:
        result = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except NimcError as error:
        click.echo(f"nimc: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        click.echo(f"nimc: {error.filename or ''}: {error.strerror or error}", err=True)
        sys.exit(3)
    sys.exit(result if isinstance(result, int) else 0)
