"""Options of a command that cannot be combined."""

from __future__ import annotations

import click
from click.core import ParameterSource

from analysis.errors import InputError


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
