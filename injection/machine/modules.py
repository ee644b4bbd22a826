"""Modules of the environment: those that are loaded, compared with those that were requested."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

#: Lmod and Environment Modules list what they loaded here, joined with colons.
LOADED = "LOADEDMODULES"
_TIMEOUT_S = 60


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
    return [name for name in lacking if not _is_alias_of_loaded(name, environment)]


def is_defined(environment: Mapping[str, str]) -> bool:
    """Whether `module` is a command of a job script's shell."""
    return _succeeds("type module", environment)


def _is_alias_of_loaded(name: str, environment: Mapping[str, str]) -> bool:
    return _succeeds('module is-loaded "$1"', environment, name)


def _succeeds(script: str, environment: Mapping[str, str], *arguments: str) -> bool:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["bash", "-c", script, "bash", *arguments],
            check=False,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
        )
        return done.returncode == 0
    return False
