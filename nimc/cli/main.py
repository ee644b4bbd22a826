"""The command `nimc`. It runs a subcommand, and turns a failure into one line and an exit code."""

from __future__ import annotations

import errno
import gc
import importlib
import io
import os
import resource
import signal
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from analysis.display.lines import visible
from records.commands import command
from records.errors import MachineError, NimcError, suggestion
from records.interrupts import Stopped, stopped_after_clean_up
from records.text import one_line

#: Heading of a group of commands in the help -> example of one of the commands, without `nimc`.
GROUPS = {
    "Set up": "doctor --machine mycluster",
    "Measure": "run quick --machine mycluster",
    "Read": "compare results/night-1 results/night-2",
    "Operate": "origins show --machine mycluster",
    "Share": "pack results/latest -o run.zip",
}


@dataclass(frozen=True)
class Command:
    """One command of `nimc`."""

    #: Heading of its group in the help.
    group: str
    #: Name of the module of `nimc.cli` that defines it. The module is imported when the command is
    #: called.
    module: str
    #: Text about the command in the help of `nimc`.
    help: str
    #: Name of a subcommand ("": the command itself) -> arguments in the example of its help.
    examples: Mapping[str, str]


COMMANDS: dict[str, Command] = {
    "init": Command(
        "Set up",
        "init",
        "both files of a new machine, with values from Slurm and nodes",
        {"": "mycluster"},
    ),
    "doctor": Command(
        "Set up",
        "hosts",
        "what works on this host, and how to get what is missing",
        {"": "--machine mycluster"},
    ),
    "spack": Command(
        "Set up",
        "spack",
        "workloads and tools built with Spack: setup, build, info",
        {"setup": "--machine mycluster", "build": "lammps --machine mycluster", "info": "lammps"},
    ),
    "minicluster": Command(
        "Set up",
        "minicluster",
        "a Slurm cluster on this machine: up, status, down",
        {"up": "--nodes 3 --origins 1", "status": "", "down": ""},
    ),
    "measure": Command(
        "Measure",
        "measure",
        "the slowdown of any command, without a campaign",
        {"": "-- ./solver input.dat"},
    ),
    "campaigns": Command(
        "Measure",
        "campaigns",
        "the campaigns: how long each takes here, and what it answers",
        {"": "--machine mycluster"},
    ),
    "plan": Command(
        "Measure",
        "plan",
        "the cases, nodes, node-hours and ReFrame commands; runs nothing",
        {"": "quick --machine mycluster"},
    ),
    "run": Command(
        "Measure",
        "run",
        "runs or resumes a campaign, prints the table and the report's path",
        {"": "quick --machine mycluster --pairs 12"},
    ),
    "inject": Command(
        "Measure",
        "inject",
        "only the writers, proven, beside a harness of your own",
        {"": "--machine mycluster --for 10min"},
    ),
    "runs": Command("Measure", "runs", "the runs of a results folder", {"": "--results results"}),
    "report": Command(
        "Read",
        "results",
        "a self-contained HTML page for each machine, and its data",
        {"": "results/night-1 results/night-2 --output pages"},
    ),
    "compare": Command(
        "Read",
        "results",
        "nights against reference nights, or two machines, side by side",
        {"": "results/night-1 results/night-2 --format markdown"},
    ),
    "advise": Command(
        "Read",
        "results",
        "recommend remedies: what each costs and gains",
        {"": "results/night-1 --traffic-share 30%"},
    ),
    "model": Command(
        "Read",
        "model",
        "the contention model: fit, predict, advise, evaluate",
        {
            "predict": "--platform henri-subnuma",
            "advise": "--platform henri-subnuma --cores 12",
            "fit": "sweep.json -o model.json",
            "evaluate": "sweep.json",
            "plot": "--platform henri-subnuma -o model.html",
        },
    ),
    "simulate": Command(
        "Read",
        "simulate",
        "slowdown at larger node counts",
        {"": "--ranks 64,8192 --worst 1.5 --writers 0.2%"},
    ),
    "writers": Command(
        "Read",
        "simulate",
        "concurrent writers from Daly's checkpoint interval",
        {"": "--ranks 8192"},
    ),
    "nights": Command(
        "Operate",
        "nights",
        "a campaign every night: run, list, alarms, pages",
        {
            "run": "quick --machine mycluster",
            "list": "--results results",
            "alarms": "--machine mycluster",
            "pages": "--output pages",
        },
    ),
    "origins": Command(
        "Operate",
        "hosts",
        "reservation of origin nodes: create, show, remove",
        {
            "create": "--machine mycluster --time 8h",
            "show": "--machine mycluster",
            "remove": "--machine mycluster",
        },
    ),
    "remedy": Command(
        "Operate",
        "hosts",
        "what an operator installs for a remedy that needs root: list, show",
        {"list": "", "show": "ddio_ways --part prolog"},
    ),
    "pack": Command(
        "Share",
        "crate",
        "a run as one zip that can be cited, verified and repeated",
        {"": "results/night-1 -o run.zip"},
    ),
    "verify": Command(
        "Share",
        "crate",
        "check a run for changes: chain, digests, outputs re-read",
        {"": "results/night-1"},
    ),
    "reproduce": Command(
        "Share",
        "crate",
        "the run of such a zip, repeated here, or only its analysis",
        {"": "run.zip --analysis-only"},
    ),
}
EXIT_CODES = (
    "Exit codes: 0 done, 1 the measurement says no, 2 invalid usage or input, 3 the machine or a"
    " tool failed."
)
#: Exit status if the program that reads the output has ended: 128 + SIGPIPE.
_BROKEN_PIPE_STATUS = 141
# The address space that a command needs is a base and an addition for each hardware thread of the
# host, but at least a minimum. A report took 1.45 GB with 2 threads, 1.74 GB with 16 and 2.01 GB
# with 64. All are in bytes.
_MIN_ADDRESS_SPACE_B = 2 << 30
_BASE_ADDRESS_SPACE_B = 3 << 29
_ADDRESS_SPACE_PER_THREAD_B = 10 << 20
#: Largest length of a line of an error message, characters.
_MAX_LINE_LENGTH = 1000
#: Error numbers of the system that mean that the user gave a wrong path.
_WRONG_PATH_ERRORS = (errno.ELOOP, errno.ENAMETOOLONG)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            if ctx.resilient_parsing:  # the shell completes a command line
                return None
            ctx.fail(f"no such command '{name}'{suggestion(name, COMMANDS)}")
        module = importlib.import_module(f"nimc.cli.{COMMANDS[name].module}")
        subcommand: click.Command = getattr(module, f"{name}_command")
        _add_examples(subcommand, name)
        return subcommand

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, example in GROUPS.items():
            rows = [
                (name, subcommand.help)
                for name, subcommand in COMMANDS.items()
                if subcommand.group == title
            ]
            with formatter.section(f"{title}, such as '{command(*example.split())}'"):
                formatter.write_dl(rows)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the options. The option `--help` prints its text here and ends the program."""
        with _broken_pipe_exit():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand. With `--debug`, print the traceback of a failure."""
        try:
            with _broken_pipe_exit():
                return super().invoke(ctx)
        except (click.exceptions.Exit, click.exceptions.Abort, click.ClickException):
            raise
        except Exception:
            if ctx.params["debug"]:
                traceback.print_exc()
            raise


def _with_command_first(words: Sequence[str]) -> list[str]:
    """Return the words with those that stand before the command after it, except `--debug`.

    A command of a group has two words. Returns an empty list if there is no command.
    """
    names: list[str] = []
    others = []
    allowed: Collection[str] = COMMANDS
    for word in words:
        if word in allowed:
            names.append(word)
            allowed = set() if len(names) == 2 else COMMANDS[word].examples.keys() - {""}
        else:
            others.append(word)
    if not names or allowed:
        return []
    debug = [word for word in others if word == "--debug"]
    return [*debug, *names, *(word for word in others if word != "--debug")]


def _add_examples(parent: click.Command, name: str) -> None:
    """Add an example and the exit codes to the help of a command and of its subcommands."""
    parent.epilog = EXIT_CODES
    subcommands = parent.commands if isinstance(parent, click.Group) else {"": parent}
    for subcommand_name, subcommand in subcommands.items():
        arguments = COMMANDS[name].examples[subcommand_name]
        example = command(*f"{name} {subcommand_name} {arguments}".split())
        subcommand.epilog = f"Example: {example}\n\n{EXIT_CODES}"


@contextmanager
def _broken_pipe_exit() -> Iterator[None]:
    """Exit with the status of SIGPIPE if the program that reads the output has ended.

    click would exit with 1.
    """
    try:
        yield
    except BrokenPipeError:
        _drop_output()
        raise click.exceptions.Exit(_BROKEN_PIPE_STATUS) from None


@click.group(
    cls=_Commands,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.version_option(package_name="nimc")
def cli(debug: bool) -> None:  # noqa: ARG001  # `_Commands.invoke` reads it
    """Measure network-induced memory contention on a machine."""
    # New files must not be writable for other users, since `records.files` would not read them
    # later.
    os.umask(os.umask(0) | 0o022)
    require_memory(resource.getrlimit(resource.RLIMIT_AS)[0], os.cpu_count() or 1)
    try:
        os.getcwd()
    except OSError as error:
        raise MachineError("the current folder no longer exists; change to another") from error


def require_memory(limit_b: int, threads: int) -> None:
    """Raise MachineError if the limit on address space is so small that libraries would abort.

    `threads` is the number of hardware threads of the host.
    """
    needed_by_threads_b = _BASE_ADDRESS_SPACE_B + threads * _ADDRESS_SPACE_PER_THREAD_B
    needed_b = max(_MIN_ADDRESS_SPACE_B, needed_by_threads_b)
    if limit_b != resource.RLIM_INFINITY and limit_b < needed_b:
        sizes = f"{limit_b >> 20} MiB of address space; needed: from {needed_b >> 20} MiB"
        raise MachineError(f"ulimit -v: {sizes}")


def main() -> None:
    """Run the command line and exit.

    Exit codes: 0 done, 1 negative result, 2 invalid input, 3 failure, 128 + the number of the
    signal that stopped the command (130 after Ctrl-C), 141 if the program that reads the output has
    ended.
    """
    os.environ["MPLBACKEND"] = "Agg"  # Matplotlib would fail to load a notebook's backend
    # Without this, Pydantic would search all installed packages for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # A locale such as en_US (Latin 1) lacks characters that a title of a campaign may have.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    # Collect garbage rarely, since hardly anything that a command allocates becomes garbage.
    gc.set_threshold(100_000, 20)
    try:
        status = _run()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # Python's own handler would print a traceback or ignore the signal while Python exits.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError as error:  # the last output could not be written
        status = _BROKEN_PIPE_STATUS if isinstance(error, BrokenPipeError) else 3
        _drop_output()
    gc.freeze()  # without this, Python would search all objects for garbage while it exits
    sys.exit(status)


def _run() -> int:
    """Run the command line and return its exit code."""
    try:
        with stopped_after_clean_up():
            result = cli.main(standalone_mode=False)
        return result if isinstance(result, int) else 0
    except Stopped as stop:
        click.echo(f"nimc: stopped by {stop}", err=True)
        return 128 + stop.signum
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("nimc: stopped by SIGINT", err=True)
        return 130
    except click.ClickException as error:
        click.echo(_shortened(_usage_text(error)), err=True)
        return 2
    except SystemExit as stop:
        if isinstance(stop.code, int):
            return stop.code
        return 3 if stop.code else 0
    except BaseException as error:  # a panic of Polars is no subclass of Exception
        click.echo(f"nimc: {_shortened(_error_text(error))}", err=True)
        if isinstance(error, NimcError):
            return error.exit_code
        is_wrong_path = isinstance(error, OSError) and error.errno in _WRONG_PATH_ERRORS
        return 2 if is_wrong_path else 3


def _usage_text(error: click.ClickException) -> str:
    """Return the message about a wrong command line that is printed for the user."""
    if isinstance(error, click.NoSuchOption) and error.ctx:
        corrected = _with_command_first(sys.argv[1:])
        if corrected and isinstance(error.ctx.command, click.Group):
            allowed = f"allowed: after it: `{command(*corrected)}`"
            return f"nimc: {error.option_name}: found before the command; {allowed}"
    message = io.StringIO()
    error.show(file=message)
    return message.getvalue().rstrip("\n")


def _error_text(error: BaseException) -> str:
    """Return the message about a failure that is printed for the user."""
    if isinstance(error, NimcError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return one_line(f"{os.fsdecode(error.filename)}: {error.strerror}")
    description = " ".join(f"{type(error).__name__}: {error}".split())
    return f"failed unexpectedly: {description}; to see where: {command('--debug', *sys.argv[1:])}"


def _shortened(text: str) -> str:
    """Return a message without the middle of very long lines.

    Characters that could control the terminal are replaced.
    """
    lines = []
    for line in visible(text).split("\n"):
        if len(line) > _MAX_LINE_LENGTH:
            beginning, end = line[: _MAX_LINE_LENGTH // 2], line[-_MAX_LINE_LENGTH // 2 :]
            line = f"{beginning} ... {end}"
        lines.append(line)
    return "\n".join(lines)


def _drop_output() -> None:
    """Redirect the output to /dev/null, so that Python does not write it again when it exits."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
