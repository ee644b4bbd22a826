"""From a campaign file to a checked campaign. Every error is reported before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nimc.campaign import rules
from nimc.campaign.checks import CheckVariables, check_of_others
from nimc.campaign.rules import Fault, dotted, unknown
from records.campaign import Campaign
from records.chain import file_digest
from records.errors import InputError, MachineError, show
from records.files import require_own
from records.machine.site import Machine
from records.marked_yaml import Marked, Place, field_at, model_around
from records.run import workload_of
from records.text import one_line

#: No more errors than this are listed.
_MOST_FAULTS = 10


def load_campaign(
    marked: Marked, checks: Mapping[str, CheckVariables], machine: Machine | None = None
) -> Campaign:
    """The campaign in a file, checked against a machine if one is given.

    Its trace, which can be read, has its whole path. Raises InputError with one line an error:
    `FILE:LINE: field: found; allowed: what is`.
    """
    if not isinstance(marked.data, dict):
        keys = ", ".join(Campaign.model_fields)
        raise InputError(
            f"{marked.path}:1: {show(marked.data)} found; a campaign is a mapping of {keys}"
        )
    try:
        campaign = Campaign.model_validate(marked.data)
    except ValidationError as error:
        of_schema = map(_of_schema, error.errors(include_url=False))
        refuse(marked, [*of_schema, *_missing_arms(marked)])
        raise
    refuse(marked, _missing_arms(marked))
    of_fields = rules.of_fields(campaign, checks)
    refuse(marked, [*of_fields, *rules.of_cells(campaign), *rules.of_cases(campaign, checks)])
    refuse(marked, rules.of_treatments(campaign, checks))
    if machine is not None:
        refuse(marked, rules.of_writes(campaign, checks, machine))
        refuse(marked, rules.of_lengths(campaign, checks, machine))
    return campaign


def refuse(marked: Marked, faults: Iterable[Fault]) -> None:
    """Raise InputError with a line for each of the first faults of a file, if there are any."""
    texts = {
        (_line_of(marked, fault.line_of or fault.place), f"{dotted(fault.place)}: {fault.text}")
        for fault in faults
    }
    lines = [one_line(f"{marked.path}:{line}: {text}") for line, text in sorted(texts)]
    if len(lines) > _MOST_FAULTS:
        lines[_MOST_FAULTS:] = [f"{marked.path}: {len(lines) - _MOST_FAULTS} more errors"]
    if lines:
        raise InputError(*lines)


def _line_of(marked: Marked, place: Place) -> int:
    """The line of a field: that of its key, if it has one."""
    return marked.key_lines.get(place) or marked.line(place)


def _of_schema(error: ErrorDetails) -> Fault:
    place: Place = error["loc"]
    if error["type"] == "extra_forbidden":
        return unknown("key", place, model_around(Campaign, place).model_fields)
    wrong = f"{show(error['input'])} found"
    if error["type"] == "missing":
        wrong = "missing"
    elif error["type"] == "value_error":
        wrong = str(error["ctx"]["error"])
    return Fault(place, f"{wrong}; allowed: {field_at(Campaign, place).description}")


def _missing_arms(marked: Marked) -> Iterator[Fault]:
    """Arms are required unless there are factors."""
    crossed = [marked.data, *_entries(marked)]
    if "arms" not in marked.data and not any(part.get("factors") for part in crossed):
        allowed = Campaign.model_fields["arms"].description
        yield Fault(("arms",), f"missing; allowed: {allowed}")


def _entries(marked: Marked) -> list[dict[str, object]]:
    """The workloads of a campaign that is not yet validated; what is no mapping has no keys."""
    entries = marked.data.get("workloads") if isinstance(marked.data, dict) else None
    listed = entries if isinstance(entries, list) else []
    return [entry if isinstance(entry, dict) else {} for entry in listed]


# Checks of others: `check: PATH.py:Class`, a class on the mixin in their file.

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


def named_in(marked: Marked) -> Iterator[tuple[Place, str]]:
    """What names checks of others in a campaign that is not yet validated, and its place."""
    for index, entry in enumerate(_entries(marked)):
        named = entry.get("check")
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
