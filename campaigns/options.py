"""Options of a command that have no part in what another one asks for."""

from __future__ import annotations

import click
from click.core import ParameterSource

from analysis.errors import InputError


def only_beside(mode: str, *allowed: str) -> None:
    """Raise InputError for an option given on the command line beside `mode` but not `allowed`."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.opts[0]
        given = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if given and name not in (mode, *allowed):
            raise InputError(
                f"{name}: has no part in {mode}; allowed beside it: {', '.join(allowed)}"
            )
