"""An argument that is a campaign: a file, or the name of one of `campaigns/`."""

from __future__ import annotations

import difflib
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from analysis.checkout import ROOT
from analysis.errors import InputError

_FOLDER = ROOT / "campaigns"


class CampaignPath(click.ParamType[Path]):
    """The path of a campaign file; `quick` is `campaigns/quick.yaml` of this checkout."""

    name = "campaign"

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Raises InputError for a name without a file. A path is checked when it is read."""
        path = Path(value)
        if path.suffix or "/" in str(value):
            return path
        known = _known()
        if path.name in known:
            return known[path.name]
        near = difflib.get_close_matches(path.name, known, n=1)
        hint = f", did you mean '{near[0]}'?" if near else ""
        raise InputError(
            f"unknown campaign '{value}'{hint}; allowed: a path, or one of {', '.join(known)}"
        )

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin so, and files."""
        names = [CompletionItem(name) for name in _known() if name.startswith(incomplete)]
        return [*names, CompletionItem(incomplete, type="file")]


def _known() -> dict[str, Path]:
    return {file.stem: file for file in sorted(_FOLDER.glob("*.yaml"))}
