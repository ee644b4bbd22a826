"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click
from click.core import ParameterSource

from analysis.checkout import ROOT
from analysis.errors import InputError
from analysis.units import duration_s
from campaigns.campaign_path import CampaignPath
from campaigns.host.default_machine import default_machine
from campaigns.output_path import OutputPath
from injection.machine.machine import known_machines

#: What a command that measures prints while it does.
Progress = Literal["quiet", "normal", "verbose"]

#: A campaign: its file, or the name of one of `campaigns/`.
campaign_argument = click.argument("campaign", type=CampaignPath())


def _machines(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of machines that begin so, for the shell's completion."""
    return [name for name in known_machines(ROOT) if name.startswith(incomplete)]


def machine_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--machine M` as the argument `machine`; without it, $NIMC_MACHINE or this host's."""
    wrapped: Callable[..., Any] = click.option(
        "--machine",
        metavar="M",
        envvar="NIMC_MACHINE",
        callback=lambda _ctx, _param, value: value or default_machine(),
        shell_complete=_machines,
        help="A file of site/ [default: $NIMC_MACHINE, else by this host's name].",
    )(function)
    return wrapped


def force_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--force` for runs that have faults, as the argument `force`."""
    text = "Show runs that have integrity faults as well; everything made of them is marked."
    wrapped: Callable[..., Any] = click.option("--force", is_flag=True, help=text)(function)
    return wrapped


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` as the argument `as_json`."""
    text = "One JSON document instead of text."
    wrapped: Callable[..., Any] = click.option("--json", "as_json", is_flag=True, help=text)(
        function
    )
    return wrapped


def form_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` and `--csv` as the argument `form` (`campaigns.document.Form`, or None)."""
    texts = {"--json": "One JSON document instead of text.", "--csv": "The table as CSV."}
    return _one_of("form", None, texts)(function)


def progress_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-q` and `-v` as the argument `progress`."""
    texts = {
        "--quiet": "Errors and results only, no progress.",
        "--verbose": "Also a line for every run, and where its logs are.",
    }
    return _one_of("progress", "normal", texts, short=True)(function)


def _one_of(
    argument: str, default: str | None, texts: dict[str, str], *, short: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Flags of which one may be given: its name is the argument's value.

    `texts`: flag -> help; `short`: its first letter is a flag as well.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def with_one(**given: Any) -> Any:
            found = [flag for flag in texts if given.pop(f"as_{flag[2:]}")]
            if len(found) > 1:
                raise InputError(f"{', '.join(found)}: both found; allowed: one of them")
            return function(**given, **{argument: found[0][2:] if found else default})

        for flag, text in reversed(texts.items()):
            names = [flag[1:3], flag] if short else [flag]
            option = click.option(*names, f"as_{flag[2:]}", is_flag=True, help=text)
            with_one = option(with_one)
        return with_one

    return decorate


def output_option(
    text: str, *, folder: bool = False, required: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--output`, and `-o`: where to write, as the argument `output`."""
    kind = OutputPath(folder=folder)
    return click.option("-o", "--output", type=kind, required=required, help=text)


def results_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--results`, the folder of the runs, as the argument `results`."""
    option = click.option(
        "--results",
        type=click.Path(path_type=Path),
        default=Path("results"),
        show_default=True,
        help="Folder for runs.",
    )
    wrapped: Callable[..., Any] = option(function)
    return wrapped


def wait_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--wait`, how long a job that looks at nodes may take, as the argument `wait_s`."""
    wrapped: Callable[..., Any] = click.option(
        "--wait",
        "wait_s",
        default="10min",
        show_default=True,
        callback=lambda _ctx, _param, value: duration_s(value, "--wait"),
        help="How long the job may wait and run; it is cancelled then.",
    )(function)
    return wrapped


def history_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--results` and `--store`: arguments `results` and `store`."""

    @functools.wraps(function)
    def with_store(results: Path, store: Path | None, **given: Any) -> Any:
        return function(results=results, store=store or results / "store", **given)

    at = click.option(
        "--store",
        type=click.Path(path_type=Path),
        help="Folder of the store [default: RESULTS/store].",
    )
    return results_option(at(with_store))


def only_with(mode: str, *allowed: str) -> None:
    """Raise InputError for an option that is given together with `mode` but not in `allowed`."""
    for name in _given():
        if name not in (mode, *allowed):
            raise InputError(
                f"{name}: cannot be combined with {mode};"
                f" allowed: {', '.join(allowed) or 'one of them'}"
            )


def useless_without(mode: str, *options: str) -> None:
    """Raise InputError for one of `options`, which have no effect without `mode`."""
    for name in _given():
        if name in options:
            raise InputError(f"{name}: has no effect without {mode}; allowed: both, or neither")


def _given() -> list[str]:
    """Options of the command line."""
    context = click.get_current_context()
    source = context.get_parameter_source
    return [
        each.opts[0]
        for each in context.command.params
        if isinstance(each, click.Option) and source(str(each.name)) is ParameterSource.COMMANDLINE
    ]
