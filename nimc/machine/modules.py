"""Modules: those loaded and those requested, and what those of an environment provide."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nimc.base.programs import ask

#: Lmod and Environment Modules list what they loaded here, joined with colons.
LOADED = "LOADEDMODULES"


def loaded(environment: Mapping[str, str]) -> list[str]:
    """Names of the loaded modules, in the order in which they were loaded."""
    return [name for name in environment.get(LOADED, "").split(":") if name]


def missing(requested: Iterable[str], found: Sequence[str]) -> list[str]:
    """Requested modules that are not among those loaded.

    A name without a version takes any, and a version stands for those that begin with it (`gcc/13`
    for `gcc/13.2.0`), as in Lmod.
    """
    return [name for name in requested if not any(_is(name, each) for each in found)]


def _is(requested: str, name: str) -> bool:
    if name == requested or name.startswith(f"{requested}/"):
        return True
    return "/" in requested and name.startswith((f"{requested}.", f"{requested}-"))


def not_loaded(requested: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """As `missing`, for this process; asks the module system about names that may be aliases."""
    lacking = missing(requested, loaded(environment))
    is_loaded = ["bash", "-c", 'module is-loaded "$1"', "bash"]
    return [name for name in lacking if not ask([*is_loaded, name], environment).ok]


def is_defined(environment: Mapping[str, str]) -> bool:
    """Whether `module` is a command of a job script's shell."""
    return ask(["bash", "-c", "type module"], environment).ok


# What an environment's modules provide on this host.


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
printf '%s\\n' '' '{_MARK}' "${LOADED}" "$PATH"
"""


@dataclass(frozen=True)
class ModuleLoad:
    """The result of loading modules in a shell of their own."""

    #: Requested modules that could not be loaded.
    missing: list[str]
    #: Search path for programs with the others loaded.
    path: str


def load_modules(names: Sequence[str], environment: Mapping[str, str]) -> ModuleLoad | None:
    """Load modules by name; None if this host has no module system."""
    if not names:
        return ModuleLoad([], environment.get("PATH", os.defpath))
    answer = ask(["bash", "-c", _LOAD, "bash", *names], environment)
    _, found, tail = answer.text.partition(f"\n{_MARK}\n")
    lines = tail.split("\n")
    if not answer.ok or not found or len(lines) < 2:
        return None
    return ModuleLoad(missing(names, lines[0].split(":")), lines[1])
