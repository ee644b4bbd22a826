"""Checks of others in a campaign: `check: PATH.py:Class`.

The run gets a file with a class that derives from the other's and the mixin, which ReFrame then
runs: the one that docs/your-own-check.md has its readers write by hand.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nimc.base.errors import InputError, MachineError
from nimc.base.files import distrust, make_folder, replace_text
from nimc.base.marked_yaml import Marked, Place
from nimc.campaign.checks import CheckVariables, check_of_others
from nimc.campaign.load import dotted, refuse
from nimc.campaign.schema import Campaign
from nimc.records.chain import file_digest
from nimc.records.run import workload_of

_NAMED = re.compile(r"[^\x00-\x1f]+\.py:[A-Za-z_]\w*", re.ASCII)
_TEXT = '''\
"""Made by nimc: the check of others `{name}` in pairs, with and without writers."""

import reframe as rfm

from reframe_tests.foreign import load_original
from reframe_tests.mixin import NimcMixin

original = load_original({path!r}, sha256="{sha256}")


@rfm.simple_test
class {name}(original.{name}, NimcMixin):
    valid_systems = {systems}
    valid_prog_environs = {environs}
'''


@dataclass(frozen=True)
class Other:
    """A check of others."""

    file: Path
    #: Its class.
    name: str
    #: Of the file.
    sha256: str
    check: CheckVariables

    @property
    def made(self) -> str:
        """The file with its class under the mixin, in the folder of a run."""
        return f"checks/{self.name}.py"

    @property
    def text(self) -> str:
        """The content of that file."""
        places = {"systems": self.check.systems, "environs": self.check.environs}
        lists = {name: json.dumps(each) for name, each in places.items()}
        return _TEXT.format(path=str(self.file), name=self.name, sha256=self.sha256, **lists)

    def pattern(self, settings: Mapping[str, Any]) -> str:
        """ReFrame's `-n` for the variant with the parameters among these settings.

        ReFrame compares it with the name that it shows, without spaces; `@` would mean a number.
        """
        chosen = "".join(
            f"(%.*)?{re.escape(f'%{name}={settings[name]}'.replace(' ', ''))}".replace("@", ".")
            for name in self.check.parameters
        )
        return f"^{self.name}{chosen}(%.*)?$"


def others_in(marked: Marked, own: Collection[str], config: Path, system: str) -> dict[str, Other]:
    """The checks of others in a campaign file, by what it calls them; `own`: this project's.

    Asks ReFrame for each. Raises InputError with a line each for those that cannot be used.
    """
    found: dict[str, Other] = {}
    faults = []
    for place, named in named_in(marked):
        if named in found:
            continue
        path, name = named.rsplit(":", 1)
        try:
            same = [key for key, each in found.items() if each.name == name]
            if name in own or same:
                text = f"{same[0] if same else 'a workload of this project'} has the same name"
                raise InputError(f"{text}; allowed: another class, such as a subclass")
            found[named] = _other(marked.path.parent / path, name, config, system)
        except (InputError, MachineError) as error:
            faults.append((marked.line(place), f"{dotted(place)}: {named} found: {error}"))
    refuse(marked.path, faults)
    return found


def named_in(campaign: Marked) -> Iterator[tuple[Place, str]]:
    """What names checks of others in a campaign that is not yet validated, and where."""
    entries = campaign.data.get("workloads") if isinstance(campaign.data, dict) else None
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        named = entry.get("check") if isinstance(entry, dict) else None
        if isinstance(named, str) and _NAMED.fullmatch(named):
            yield ("workloads", index, "check"), named


def _other(path: Path, name: str, config: Path, system: str) -> Other:
    """Raises InputError or MachineError for one that cannot be used, with the reason."""
    path = Path(os.path.realpath(path.parent), path.name)
    # It runs as this user, and imports what lies next to it.
    for each in (path.parent, path):
        try:
            reason = distrust(each, or_root=True)
        except OSError as error:
            reason = str(error.strerror).lower()
        if reason:
            whose = "allowed: a file and folder of your own or root's that others cannot write to"
            raise InputError(f"{each}: {reason}; {whose}")
    if not path.is_file():
        raise InputError(f"{path}: is a folder; allowed: a file")
    return Other(path, name, file_digest(path), check_of_others(path, name, config, system))


def renamed(campaign: Campaign, others: Iterable[str]) -> Campaign:
    """The campaign with checks of others by the names of their classes."""
    entries = [
        each.but({"check": workload_of(each.check)}) if each.check in others else each
        for each in campaign.workloads
    ]
    return campaign.model_copy(update={"workloads": entries})


def write(run: Path, others: Iterable[Other]) -> None:
    """Write the files that ReFrame runs into the folder of a run."""
    for other in others:
        make_folder((run / other.made).parent)
        replace_text(run / other.made, other.text)
