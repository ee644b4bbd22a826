"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from analysis.errors import InputError
from campaigns.campaign_path import CampaignPath
from campaigns.host.default_machine import default_machine

#: A campaign: its file, or the name of one of `campaigns/`.
campaign_argument = click.argument("campaign", type=CampaignPath())


def machine_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--machine M` as the argument `machine`; without it, $NIMC_MACHINE or this host's."""
    wrapped: Callable[..., Any] = click.option(
        "--machine",
        metavar="M",
        envvar="NIMC_MACHINE",
        callback=lambda _ctx, _param, value: value or default_machine(),
        help="A file of site/ [default: $NIMC_MACHINE, else by this host's name].",
    )(function)
    return wrapped


def force_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--force` for runs that have faults, as the argument `force`."""
    text = "Show runs that have integrity faults as well; everything made of them is marked."
    wrapped: Callable[..., Any] = click.option("--force", is_flag=True, help=text)(function)
    return wrapped


def only_with(mode: str, *allowed: str) -> None:
    """Raise InputError for an option that is given together with `mode` but not in `allowed`."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.opts[0]
        given = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if given and name not in (mode, *allowed):
            raise InputError(
                f"{name}: cannot be combined with {mode}; allowed: {', '.join(allowed)}"
            )
