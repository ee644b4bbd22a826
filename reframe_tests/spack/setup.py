"""Finds an installed Spack, or clones the pinned one, and configures it for a machine."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from records.commands import setup_command
from records.errors import InputError, MachineError
from records.files import replace_text
from records.programs import ask
from reframe_tests.spack.externals import packages_in
from reframe_tests.spack.folders import SpackLayout, locked
from reframe_tests.spack.isolation import spack
from reframe_tests.spack.settings import (
    Source,
    SpackSettings,
    load_pins,
    load_settings,
    pinned_recipes,
)

#: Build tools that are taken from the host and never built.
BUILD_TOOLS = (
    "gmake",
    "m4",
    "perl",
    "autoconf",
    "automake",
    "libtool",
    "pkgconf",
    "diffutils",
    "findutils",
    "tar",
    "bison",
    "flex",
    "gettext",
)
#: Packages that are taken from the host if found there, and built otherwise. Slurm is never built.
HOST_PACKAGES = ("cmake", "python", "git", "slurm", "openssh", "rdma-core")
#: Libraries, by their names for pkg-config, which finds them with their headers only. Spack finds
#: openssl by its program, with or without headers, and does not find those of Slurm.
LIBRARIES = ("pmix", "munge", "openssl")


def find_spack() -> Path | None:
    """Return the folder of the installed Spack: `SPACK_ROOT`, else the one on PATH.

    Raises InputError if `SPACK_ROOT` is invalid.
    """
    if root_text := os.environ.get("SPACK_ROOT"):
        spack_root = Path(root_text).absolute()
        if not (spack_root / "bin" / "spack").is_file():
            raise InputError(f"SPACK_ROOT: {spack_root} has no bin/spack")
        return spack_root
    program = shutil.which("spack")
    return Path(program).resolve().parent.parent if program else None


def setup(
    layout: SpackLayout,
    recipes_folder: Path | None,
    machine_packages: Path | None,
    mirror: str | None,
    say: Callable[[str], None],
    *,
    forget: bool = False,
) -> SpackSettings:
    """Set up Spack: clones, configuration, compilers and build tools.

    `recipes_folder` has recipes that replace the pinned ones. `machine_packages` is a file with the
    packages of the machine, in Spack's format. An argument that is None keeps the value of an
    earlier setup, unless its file is gone, or `forget` is true. Raises InputError for an invalid
    argument, and MachineError.
    """
    if importlib.util.find_spec("clingo") is None:
        raise MachineError(
            f"{sys.executable} has no clingo, Spack's solver;"
            f" `{setup_command('spack')}` installs it"
        )
    pins = load_pins()
    with locked(layout.lock("setup")):
        previous = None
        with suppress(InputError):
            previous = load_settings(layout)
        if previous and not forget:
            recipes_folder = recipes_folder or _remembered(previous.packages, say)
            machine_packages = machine_packages or _remembered(previous.machine_file, say)
            mirror = mirror or previous.mirror
        _check_arguments(recipes_folder, machine_packages, mirror)
        spack_root = _recent_spack(layout, say) or _pinned_clone(layout, "spack", pins.spack, say)
        if recipes_folder is None:
            _pinned_clone(layout, "packages", pins.packages, say)
        write_config(layout, mirror, recipes_folder or pinned_recipes(layout, pins))
        version = _known_version(layout, spack_root)
        settings = SpackSettings(
            spack=str(spack_root),
            version=version,
            pinned=f"v{version}" == pins.spack.tag,
            packages=str(recipes_folder.resolve()) if recipes_folder else None,
            machine_file=str(machine_packages.resolve()) if machine_packages else None,
            mirror=mirror,
        )
        if settings != previous:
            # This file says that Spack is set up. It is written again after the search below.
            layout.settings_file.unlink(missing_ok=True)
        _find_host_packages(layout, spack_root, say)
        replace_text(layout.settings_file, json.dumps(asdict(settings), indent=1) + "\n")
    return settings


def _remembered(name: str | None, say: Callable[[str], None]) -> Path | None:
    """Return the path that an earlier setup was given; None if it was given none, or it is gone."""
    if name is not None and not Path(name).exists():
        say(f"{name}: named by an earlier setup, is gone, so it is not used any more")
        return None
    return Path(name) if name else None


def _recent_spack(layout: SpackLayout, say: Callable[[str], None]) -> Path | None:
    """Return the folder of the installed Spack; None if there is none, or it cannot be used.

    Many sites put a Spack of their own on every user's PATH. It may be too old, or not run here.
    """
    spack_root = find_spack()
    if spack_root is None:
        return None
    try:
        version = _known_version(layout, spack_root)
    except MachineError as error:
        say(f"{spack_root}: is not used: {error}")
        return None
    if int(version.partition(".")[0]) >= 1:
        return spack_root
    say(f"{spack_root}: Spack {version} is too old (1.0 or newer is needed), so it is not used")
    return None


def _known_version(layout: SpackLayout, spack_root: Path) -> str:
    """Return the version of a Spack. Raises MachineError if it is unreadable."""
    printed = spack(layout, spack_root, "--version", log_name="setup")
    version = re.match(r"[0-9]{1,4}\.\S+", printed)
    if version is None:
        raise MachineError(f"`{spack_root}/bin/spack --version` prints {printed.strip()[:80]!r}")
    return version[0]


def _find_host_packages(layout: SpackLayout, spack_root: Path, say: Callable[[str], None]) -> None:
    """Add the host's packages to the user scope, which keeps its present entries.

    Each setup searches again, since the host may have changed.
    """
    say(f"searching for compilers, build tools and Slurm (log: {layout.log('setup')})")
    find = ("external", "find", "--scope", "user")
    find_compilers(layout, spack_root)
    spack(layout, spack_root, *find, "--not-buildable", *BUILD_TOOLS, log_name="setup")
    spack(layout, spack_root, *find, *HOST_PACKAGES, log_name="setup")
    path = layout.host_packages_file
    known_packages = packages_in(path, "user scope") if path.is_file() else {}
    added = {}
    for name in LIBRARIES:
        external = pkg_config_external(name)
        if external and name not in known_packages:
            added[name] = external
    if added:
        text = yaml.safe_dump({"packages": known_packages | added}, sort_keys=False)
        replace_text(path, text)


def find_compilers(layout: SpackLayout, spack_root: Path) -> None:
    """Add the host's compilers to the user scope."""
    spack(layout, spack_root, "compiler", "find", "--scope", "user", log_name="setup")


def pkg_config_external(name: str) -> dict[str, Any] | None:
    """Return Spack's entry for a library if this host has it with its headers; else None."""
    version = ask(["pkg-config", "--modversion", name])
    prefix = ask(["pkg-config", "--variable=prefix", name])
    if not (version.ok and prefix.ok and prefix.stdout.strip()):
        return None
    spec = f"{name}@{version.stdout.strip()}"
    return {"externals": [{"spec": spec, "prefix": prefix.stdout.strip()}]}


def _pinned_clone(
    layout: SpackLayout, name: str, source: Source, say: Callable[[str], None]
) -> Path:
    """Return the folder of the pinned clone; make the clone if it does not exist."""
    path = layout.clone_folder(name, source.commit)
    if not path.is_dir():
        say(f"cloning {source.git} {source.tag}")
        clone(source.git, source.tag, source.commit, path)
    return path


def _check_arguments(
    recipes_folder: Path | None, machine_packages: Path | None, mirror: str | None
) -> None:
    """Raise InputError for a value that would be ignored, or make a build fail hours later."""
    if recipes_folder and not (recipes_folder / "repo.yaml").is_file():
        raise InputError(
            f"--packages: {recipes_folder} has no repo.yaml; allowed: the folder"
            " repos/spack_repo/builtin of a copy of the recipes"
        )
    if machine_packages:
        packages_in(machine_packages, "--machine-file")
    scheme, separator, location = (mirror or "").partition("://")
    if mirror and not separator:
        raise InputError(f"--mirror: {mirror!r} is no URL; allowed: file:///FOLDER, https://...")
    if scheme == "file" and not Path(location).is_dir():
        raise InputError(
            f"--mirror: {location} is not a folder; 'spack mirror create' makes one"
            " (docs/workloads.md#spacks-files-and-sites-without-a-network)"
        )


def write_config(layout: SpackLayout, mirror: str | None, recipes_folder: Path) -> None:
    """Write Spack's user scope: a store, caches and stages next to the store, no bootstrapping.

    Without `recipes_folder`, Spack would clone other recipes for commands outside an environment,
    such as finding compilers.
    """
    root = layout.root
    # The store's path is padded, so that a package can be moved to a store with another path.
    # Without padding, Spack would have to bootstrap a tool for that.
    sections = {
        "config": {
            "install_tree": {"root": str(layout.store), "padded_length": 128},
            "build_stage": [str(root / "stage")],
            "test_stage": str(root / "test"),
            "source_cache": str(root / "sources"),
            "misc_cache": str(root / "misc"),
            "locks": True,
        },
        "bootstrap": {"enable": False, "root": str(root / "bootstrap")},
        "repos": {"builtin": str(recipes_folder.resolve())},
        "mirrors": {"nimc": {"url": mirror, "signed": False}} if mirror else {},
    }
    layout.config.mkdir(parents=True, exist_ok=True)
    # Without a configuration, Slurm's programs do not print their version, which Spack reads.
    replace_text(layout.slurm_conf, "ClusterName=none\nSlurmctldHost=localhost\n")
    for name, content in sections.items():
        text = yaml.safe_dump({name: content}, sort_keys=False)
        replace_text(layout.config / f"{name}.yaml", text)


#: How long git may take to clone, seconds.
_CLONE_TIMEOUT_S = 3600.0


def clone(git: str, tag: str, commit: str, into: Path) -> None:
    """Make a shallow clone and check that it is the pinned commit."""
    into.parent.mkdir(parents=True, exist_ok=True)
    partial_clone = into.with_name(f"{into.name}.part{os.getpid()}")
    try:
        _git("clone", "--quiet", "--depth", "1", "--branch", tag, git, str(partial_clone))
        head = _git("-C", str(partial_clone), "rev-parse", "HEAD").strip()
        if head != commit:
            raise MachineError(f"{git}: tag {tag} is {head}, not the pinned {commit}")
        partial_clone.rename(into)
    finally:
        shutil.rmtree(partial_clone, ignore_errors=True)


def _git(*words: str) -> str:
    return ask(["git", *words], timeout_s=_CLONE_TIMEOUT_S).required_output()
