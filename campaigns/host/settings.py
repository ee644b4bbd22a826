"""What a ReFrame configuration says: its partitions, environments and their features."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaigns.host.programs import ask

Partitions = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ReframeSettings:
    """What a ReFrame configuration defines and sets."""

    #: This process's environment with the configuration's changes (`SLURM_CONF`).
    environment: dict[str, str]
    #: Partitions of its first system, as in the file; empty if it cannot be read.
    partitions: list[dict[str, Any]] = field(default_factory=list)
    #: Its environments, as in the file.
    environs: list[dict[str, Any]] = field(default_factory=list)
    #: Names of its hosts, as regular expressions.
    hostnames: list[str] = field(default_factory=list)
    #: Why it cannot be read, in one line.
    fault: str | None = None


def settings_of(config: Path) -> ReframeSettings:
    """Run a ReFrame configuration in a separate process and return its settings."""
    code = (
        "import json, os, runpy, sys; made = runpy.run_path(sys.argv[1])['site_configuration'];"
        "first = made['systems'][0]; parts = first['partitions'];"
        "environs = made.get('environments', []);"
        "[each['name'] for each in [*parts, *environs]];"
        "hosts = first.get('hostnames', []);"
        "print(json.dumps([{**os.environ}, parts, environs, hosts], default=str))"
    )
    answer = ask([sys.executable, "-c", code, str(config)])
    with suppress(ValueError, TypeError):
        if answer.ok:
            return ReframeSettings(*json.loads(answer.text))
    return ReframeSettings(dict(os.environ), fault=answer.last)


def target_partitions(partitions: Partitions, name: str | None) -> Partitions:
    """Partitions that targets may come from: the one of that name, else any."""
    return [part for part in partitions if name in (None, part.get("name"))]


def unsupported(
    needs: Mapping[str, Sequence[str]],
    partitions: Partitions,
    environs: Sequence[Mapping[str, Any]],
) -> list[str]:
    """Checks of which no environment of any of the partitions has what they need.

    `needs`: check -> features, `+NAME`, of which one is enough. A condition of another form is not
    judged.
    """
    usable = {name for part in partitions for name in part.get("environs", [])}
    found = {
        f"+{feature}"
        for environ in environs
        if environ.get("name") in usable
        for feature in environ.get("features", [])
    }
    return [
        check
        for check, features in needs.items()
        if all(re.fullmatch(r"\+[\w-]+", feature) for feature in features)
        and not found.intersection(features)
    ]


def features_in_words(needed: Sequence[str]) -> str:
    """`wheels or spack` of `+wheels` and `+spack`."""
    return " or ".join(feature.lstrip("+") for feature in needed)
