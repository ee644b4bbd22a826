"""Packages and compilers that Spack takes from the host."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from records.errors import InputError
from reframe_tests.spack.folders import SpackLayout, spack_setup_command
from reframe_tests.spack.settings import ENVIRONMENTS_FOLDER, SpackSettings


def has_host_slurm(layout: SpackLayout, settings: SpackSettings) -> bool:
    """Return whether Spack takes Slurm from the host."""
    return any(
        packages_in(path, "packages").get("slurm", {}).get("externals")
        for path in package_files(layout, settings)
    )


def package_files(layout: SpackLayout, settings: SpackSettings) -> list[Path]:
    """Return the existing files with packages of the host, by whoever wrote them.

    Spack searches the host for packages that none of these files has. Raises InputError if the file
    that the setup named is gone.
    """
    site_scope_file = Path(settings.spack) / "etc" / "spack" / "packages.yaml"
    files = (layout.host_packages_file, machine_packages_file(layout, settings), site_scope_file)
    return [path for path in files if path.is_file()]


#: Language, as Spack calls it -> its name, and packages of Debian and RHEL with a compiler for it.
LANGUAGES = {
    "c": ("C", "gcc", "gcc"),
    "cxx": ("C++", "g++", "gcc-c++"),
    "fortran": ("Fortran", "gfortran", "gcc-gfortran"),
}


def compilers(layout: SpackLayout, settings: SpackSettings) -> dict[str, dict[str, str]]:
    """Return compiler (spec without variants) -> language (`LANGUAGES`) -> program on this host.

    The compilers are the ones that Spack found on this host, and the ones in the machine's file and
    in the files of a site's Spack. Raises InputError if a file cannot be read.
    """
    programs_by_compiler: dict[str, dict[str, str]] = {}
    for path in package_files(layout, settings):
        for rules in packages_in(path, "packages").values():
            externals = rules.get("externals")
            if not isinstance(externals, list):
                continue
            for external in externals:
                if programs := _programs(external):
                    name = str(external.get("spec")).partition(" ")[0]
                    programs_by_compiler[name] = programs | programs_by_compiler.get(name, {})
    return programs_by_compiler


def machine_packages_file(layout: SpackLayout, settings: SpackSettings) -> Path:
    """Return the path of the machine's file of packages; the default file may be absent.

    Raises InputError if the setup named another file that is gone.
    """
    if settings.machine_file is None:
        return ENVIRONMENTS_FOLDER / "machines" / f"{layout.machine}.yaml"
    path = Path(settings.machine_file)
    if not path.is_file():
        raise InputError(
            f"{path}: the machine's file of packages is gone: restore it, or name another one:"
            f" `{spack_setup_command(layout.machine)} --machine-file FILE`"
        )
    return path


def c_compiler(layout: SpackLayout, settings: SpackSettings) -> str:
    """Return the program of Spack's C compiler: the newest GCC, or else the newest compiler.

    Raises InputError if Spack has none.
    """
    programs_by_compiler = compilers(layout, settings)
    with_c = [name for name, programs in programs_by_compiler.items() if "c" in programs]
    if not with_c:
        fault_and_remedy = compiler_fault_and_remedy(programs_by_compiler, layout.machine)
        assert fault_and_remedy is not None, "no compiler compiles C"
        raise InputError(": ".join(fault_and_remedy))

    def preference(name: str) -> tuple[bool, list[int]]:
        # `common.yaml` prefers GCC.
        version = name.partition("@")[2]
        return name.startswith("gcc@"), [int(number) for number in re.findall(r"\d+", version)]

    return programs_by_compiler[max(with_c, key=preference)]["c"]


def _programs(external: object) -> dict[str, str]:
    """Return language -> program for a compiler of the host, without programs that do not exist.

    A package that is not a compiler has no programs. Spack itself rejects invalid packages.
    """
    programs: Any = external
    for key in ("extra_attributes", "compilers"):
        programs = programs.get(key) if isinstance(programs, dict) else None
    if not isinstance(programs, dict):
        return {}
    listed = {key: programs[key] for key in LANGUAGES if isinstance(programs.get(key), str)}
    return {key: program for key, program in listed.items() if shutil.which(program)}


def compiler_fault_and_remedy(
    programs_by_compiler: dict[str, dict[str, str]], machine: str
) -> tuple[str, str] | None:
    """Return which compilers Spack lacks, and how to install them; None if it lacks none."""
    missing_languages = [
        language
        for key, language in LANGUAGES.items()
        if not any(key in programs for programs in programs_by_compiler.values())
    ]
    if not missing_languages:
        return None
    names, debian, rhel = zip(*missing_languages, strict=True)
    return (
        f"Spack has no {' and no '.join(names)} compiler",
        f"apt install {' '.join(debian)}, or dnf install {' '.join(rhel)};"
        f" then `{spack_setup_command(machine)}`",
    )


def packages_in(path: Path, field: str) -> dict[str, Any]:
    """Return the packages in a file, by name. Raises InputError if the file has no packages."""
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise InputError(f"{field}: {path}: {' '.join(str(error).split())}") from None
    return packages_in_text(text, path, field)


def packages_in_text(text: str, path: Path, field: str) -> dict[str, Any]:
    """Return the packages in the text of a file, as `packages_in` does."""
    try:
        content = yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{field}: {path}: {' '.join(str(error).split())}") from None
    packages = content.get(packages_key(content)) if isinstance(content, dict) else None
    if not isinstance(packages, dict) or not all(
        isinstance(rules, dict) for rules in packages.values()
    ):
        raise InputError(
            f"{field}: {path} has no section 'packages'; allowed: 'packages:' with a mapping for"
            " each package (docs/workloads.md#spack)"
        )
    return {_MARK.sub("", str(name)): rules for name, rules in packages.items()}


#: A mark at the end of a name, which Spack removes. An entry with a mark replaces entries of lower
#: precedence, or comes before or after them (`packages::`, `openmpi+:`, `all-:`).
_MARK = re.compile(r"[+-]?:?$")


def packages_key(content: dict[str, Any]) -> str:
    """Return the key of the section `packages` in Spack's configuration, which may have a mark."""
    return next((key for key in content if _MARK.sub("", str(key)) == "packages"), "packages")
