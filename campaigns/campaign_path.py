"""An argument that is a campaign: a file, or the name of one of `campaigns/`."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

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
        known = {file.stem: file for file in sorted(_FOLDER.glob("*.yaml"))}
        if path.name in known:
            return known[path.name]
        near = difflib.get_close_matches(path.name, known, n=1)
        hint = f", did you mean '{near[0]}'?" if near else ""
        raise InputError(
            f"unknown campaign '{value}'{hint}; allowed: a path, or one of {', '.join(known)}"
        )
