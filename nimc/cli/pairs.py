"""The option `--pairs`: the largest number of pairs of a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from analysis.statistics.evidence import interim_analyses
from nimc.campaign.plan import Request
from records.campaign import MAX_PAIRS
from records.errors import InputError

#: Number of allowed values of `--pairs` that a message lists.
_MAX_LISTED_NUMBERS = 9


def _require_interim(_ctx: click.Context, _param: click.Parameter, pairs: int | None) -> int | None:
    """Return `pairs`. Raises InputError unless verdicts are computed at this number of pairs.

    Verdicts are computed only at interim analyses, which have fixed numbers of pairs.
    """
    allowed = [interim.pairs for interim in interim_analyses(MAX_PAIRS)]
    if pairs is not None and pairs not in allowed:
        examples = ", ".join(map(str, allowed[:_MAX_LISTED_NUMBERS]))
        raise InputError(f"--pairs: {pairs} found; allowed, as verdicts need: {examples}, ...")
    return pairs


def pairs_option(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option `--pairs`, whose help is 'Most pairs of a case, ' and `help_text`."""
    return click.option(
        "--pairs",
        type=int,
        metavar="N",
        callback=_require_interim,
        help=f"Most pairs of a case, {help_text}.",
    )


def require_floor(request: Request, pairs: int, reword: Callable[[str], str] = str) -> None:
    """Raise InputError if `pairs` is below the pairs from which the campaign decides a case.

    `reword` changes the message to the words of the user's command.
    """
    floor = request.campaign.pairs.floor
    if pairs < floor:
        why = "since fewer decide no case"
        allowed = reword(f"{floor} or more, the campaign's `pairs.floor`, {why}")
        raise InputError(f"--pairs: {pairs} found; allowed: {allowed}")
