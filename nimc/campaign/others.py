"""Checks of others in a campaign: `check: PATH.py:Class`, a class on the mixin in their file."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nimc.campaign.checks import CheckVariables, check_of_others
from nimc.campaign.load import refuse
from nimc.campaign.rules import Fault
from records.campaign import Campaign
from records.chain import file_digest
from records.errors import InputError, MachineError
from records.files import require_own
from records.marked_yaml import Marked, Place
from records.run import workload_of

_NAMED = re.compile(r"[^\x00-\x1f]+\.py:[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Other:
    """A check of others."""

    file: Path
    #: Its class.
    name: str
    #: Of the file.
    sha256: str
    check: CheckVariables


def others_in(marked: Marked, ours: Collection[str], config: Path, system: str) -> dict[str, Other]:
    """The checks of others in a campaign file, by what it calls them; `ours`: this project's.

    Asks ReFrame for each. Raises InputError with a line each for those that cannot be used.
    """
    others: dict[str, Other] = {}
    faults = []
    for place, named in named_in(marked):
        if named in others:
            continue
        path, name = named.rsplit(":", 1)
        try:
            if name in {*ours, *(other.name for other in others.values())}:
                raise InputError("another check has the same name; allowed: such as a subclass")
            others[named] = _other(marked.path.parent / path, name, config, system)
        except (InputError, MachineError) as error:
            faults.append(Fault(place, f"{named} found: {error}"))
    refuse(marked, faults)
    return others


def named_in(campaign: Marked) -> Iterator[tuple[Place, str]]:
    """What names checks of others in a campaign that is not yet validated, and its place."""
    entries = campaign.data.get("workloads") if isinstance(campaign.data, dict) else None
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        named = entry.get("check") if isinstance(entry, dict) else None
        if isinstance(named, str) and _NAMED.fullmatch(named):
            yield ("workloads", index, "check"), named


def _other(path: Path, name: str, config: Path, system: str) -> Other:
    """Raises InputError or MachineError for one that cannot be used, with the reason."""
    path = Path(os.path.realpath(path.parent), path.name)
    for place in (path.parent, path):  # it runs as this user, and imports what lies next to it
        require_own(place, "file", or_root=True)
    if not path.is_file():
        raise InputError(f"{path}: no such file; allowed: a file")
    return Other(path, name, file_digest(path), check_of_others(path, name, config, system))


def renamed(campaign: Campaign, others: Iterable[str]) -> Campaign:
    """The campaign with checks of others by the names of their classes."""
    entries = [
        entry.but({"check": workload_of(entry.check)}) if entry.check in others else entry
        for entry in campaign.workloads
    ]
    return campaign.model_copy(update={"workloads": entries})
