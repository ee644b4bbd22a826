"""What a ReFrame configuration says: its partitions, environments and their features."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.start_python import python_code, python_path
from campaigns.host.config_keys import key_fault
from campaigns.host.programs import ask

Partitions = Sequence[Mapping[str, Any]]
#: Begins the line with the settings; the file may print others, and warnings.
_MARK = "nimc: settings "


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
    #: Name of its first system.
    system: str = ""
    #: What is wrong with it, in one line, and the line of the file if that is known.
    fault: str | None = None
    fault_line: int | None = None


def settings_of(config: Path) -> ReframeSettings:
    """Run a ReFrame configuration in a separate process and return its settings."""
    code = (
        "import json, os, runpy; made = runpy.run_path(sys.argv[1])['site_configuration'];"
        "first = made['systems'][0]; parts = first['partitions'];"
        "environs = made.setdefault('environments', []);"
        "[each['name'] for each in [first, *parts, *environs]];"
        f"print('\\n{_MARK}' + json.dumps([{{**os.environ}}, made], default=str))"
    )
    environment = {**os.environ, "PYTHONPATH": python_path()}
    answer = ask(python_code(code, str(config)), environment)
    with suppress(ValueError, TypeError):
        if answer.ok:
            _, _, rest = answer.text.partition(f"\n{_MARK}")
            environment, made = json.loads(rest.partition("\n")[0])
            first = made["systems"][0]
            line, fault = key_fault(config, made) or (None, None)
            return ReframeSettings(
                environment,
                first["partitions"],
                made["environments"],
                first.get("hostnames", []),
                first["name"],
                fault,
                line,
            )
    lines = re.findall(rf'File "{re.escape(str(config))}", line (\d+)', answer.text)
    fault = f"cannot be read: {answer.last}"
    return ReframeSettings(
        dict(os.environ), fault=fault, fault_line=int(lines[-1]) if lines else None
    )


def target_partitions(partitions: Partitions, name: str | None) -> Partitions:
    """Partitions that targets may come from: the one of that name, else any."""
    return [part for part in partitions if name in (None, part.get("name"))]


def features_in_words(needed: Sequence[str]) -> str:
    """`wheels or spack` of `+wheels` and `+spack`."""
    return " or ".join(feature.removeprefix("+") for feature in needed)
