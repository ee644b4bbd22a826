"""Packages and compilers that Spack takes from the host."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from records.errors import InputError
from reframe_tests.spack.folders import SpackLayout, spack_setup_command
from reframe_tests.spack.settings import ENVIRONMENTS, SpackSettings


def has_external(layout: SpackLayout, settings: SpackSettings, package: str) -> bool:
    """Return whether Spack takes a package from the host."""
    for path in (layout.packages, own_file(layout, settings)):
        if path.is_file() and packages_in(path, "packages").get(package, {}).get("externals"):
            return True
    return False


#: Language, as Spack calls it -> its name, and packages of Debian and RHEL with a compiler for it.
LANGUAGES = {
    "c": ("C", "gcc", "gcc"),
    "cxx": ("C++", "g++", "gcc-c++"),
    "fortran": ("Fortran", "gfortran", "gcc-gfortran"),
}


def compilers(layout: SpackLayout, settings: SpackSettings) -> dict[str, dict[str, str]]:
    """Compiler (spec without variants) -> its programs on this host by language (`LANGUAGES`).

    From what Spack found on this host, and the machine's file. Raises InputError if one of them
    cannot be read.
    """
    programs_of: dict[str, dict[str, str]] = {}
    for path in (layout.packages, own_file(layout, settings)):
        for rules in packages_in(path, "packages").values() if path.is_file() else ():
            listed = rules.get("externals")
            for external in listed if isinstance(listed, list) else ():
                if programs := _programs(external):
                    name = str(external.get("spec")).partition(" ")[0]
                    programs_of[name] = programs | programs_of.get(name, {})
    return programs_of


def own_file(layout: SpackLayout, settings: SpackSettings) -> Path:
    """The machine's own packages; the file may be absent."""
    default = ENVIRONMENTS / "machines" / f"{layout.machine}.yaml"
    return Path(settings.machine_file or default)


def c_compiler(layout: SpackLayout, settings: SpackSettings) -> str:
    """The program of Spack's C compiler: GCC before others (`common.yaml`), the newest of them.

    Raises InputError if it has none.
    """
    programs_of = compilers(layout, settings)
    with_c = [name for name, programs in programs_of.items() if "c" in programs]
    if not with_c:
        raise InputError(": ".join(without_compiler(programs_of, layout.machine) or ()))

    def rank(name: str) -> tuple[bool, list[int]]:
        version = name.partition("@")[2]
        return name.startswith("gcc@"), [int(number) for number in re.findall(r"\d+", version)]

    return programs_of[max(with_c, key=rank)]["c"]


def _programs(external: object) -> dict[str, str]:
    """Language -> the program of a compiler of the host for it, if that is there.

    What is no such package is Spack's to reject.
    """
    programs: Any = external
    for key in ("extra_attributes", "compilers"):
        programs = programs.get(key) if isinstance(programs, dict) else None
    if not isinstance(programs, dict):
        return {}
    named = {key: programs[key] for key in LANGUAGES if isinstance(programs.get(key), str)}
    return {key: program for key, program in named.items() if shutil.which(program)}


def without_compiler(
    programs_of: dict[str, dict[str, str]], machine: str
) -> tuple[str, str] | None:
    """The languages for which Spack has no compiler, and what to do; None if it has all."""
    absent = [
        language
        for key, language in LANGUAGES.items()
        if not any(key in programs for programs in programs_of.values())
    ]
    if not absent:
        return None
    names, debian, rhel = zip(*absent, strict=True)
    return (
        f"Spack has no {' and no '.join(names)} compiler",
        f"apt install {' '.join(debian)}, or dnf install {' '.join(rhel)};"
        f" then `{spack_setup_command(machine)}`",
    )


def packages_in(path: Path, field: str) -> dict[str, Any]:
    """The packages in a file, by name. Raises InputError unless that is what it has."""
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise InputError(f"{field}: {path}: {' '.join(str(error).split())}") from None
    return packages_of(text, path, field)


def packages_of(text: str, path: Path, field: str) -> dict[str, Any]:
    """The same of a text, which is that of a file."""
    try:
        content = yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{field}: {path}: {' '.join(str(error).split())}") from None
    packages = content.get(section_name(content, "packages")) if isinstance(content, dict) else None
    if not isinstance(packages, dict) or not all(
        isinstance(rules, dict) for rules in packages.values()
    ):
        raise InputError(
            f"{field}: {path} has no section 'packages'; allowed: 'packages:' with a mapping for"
            " each package (docs/workloads.md#spack)"
        )
    return {_MARK.sub("", str(name)): rules for name, rules in packages.items()}


#: Suffixes that Spack takes off a name: it overrides what has less precedence, or comes before or
#: after that (`packages::`, `openmpi+:`, `all-:`).
_MARK = re.compile(r"[+-]?:?$")


def section_name(content: dict[str, Any], name: str) -> str:
    """The key of a section in Spack's configuration, which may have a mark."""
    return next((key for key in content if _MARK.sub("", str(key)) == name), name)
