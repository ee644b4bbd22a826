"""What an environment's modules provide on this host."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from campaigns.host.programs import ask
from injection.machine import modules

#: Marks the lines that follow all that modules print themselves.
_MARK = "nimc: loaded"
#: Loads modules one by one, since an error must not hide the next one; then prints what is loaded
#: and the search path. Exits with 9 without a module system.
_LOAD = f"""
if ! type module >/dev/null 2>&1; then
    if [ -n "$LMOD_CMD" ]; then
        module() {{ eval "$("$LMOD_CMD" bash "$@")"; }}
    elif command -v "${{MODULES_CMD:-modulecmd}}" >/dev/null; then
        module() {{ eval "$("${{MODULES_CMD:-modulecmd}}" bash "$@")"; }}
    else
        exit 9
    fi
fi
for name; do module load "$name" </dev/null; done
printf '%s\\n' '' '{_MARK}' "${modules.LOADED}" "$PATH"
"""


@dataclass(frozen=True)
class ModuleLoad:
    """The result of loading modules in a shell of their own."""

    #: Requested modules that could not be loaded.
    missing: list[str]
    #: Search path for programs with the others loaded.
    path: str


def load(names: Sequence[str], environment: Mapping[str, str]) -> ModuleLoad | None:
    """Load modules by name; None if this host has no module system."""
    if not names:
        return ModuleLoad([], environment.get("PATH", os.defpath))
    answer = ask(["bash", "-c", _LOAD, "bash", *names], environment)
    _, found, tail = answer.text.partition(f"\n{_MARK}\n")
    lines = tail.split("\n")
    if not answer.ok or not found or len(lines) < 2:
        return None
    return ModuleLoad(modules.missing(names, lines[0].split(":")), lines[1])
