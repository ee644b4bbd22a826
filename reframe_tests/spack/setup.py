"""Finds an installed Spack, or clones the pinned one, and configures it for a machine."""

from __future__ import annotations

import importlib.util
import json
import os
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
from reframe_tests.spack.settings import Source, SpackSettings, load, load_pins, recipes

#: Build tools that every host has: never built.
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
#: Taken from the host if found, else built; but Slurm, which is never built.
FOUND = ("cmake", "python", "openssl", "curl", "git", "slurm", "openssh", "rdma-core")
#: Libraries of the host that Spack cannot find, by their names for pkg-config: Slurm's.
LIBRARIES = ("pmix", "munge")


def find_spack() -> Path | None:
    """The installed Spack: `SPACK_ROOT`, else the one on PATH."""
    if named := os.environ.get("SPACK_ROOT"):
        root = Path(named).absolute()
        if not (root / "bin" / "spack").is_file():
            raise InputError(f"SPACK_ROOT: {root} has no bin/spack")
        return root
    program = shutil.which("spack")
    return Path(program).resolve().parent.parent if program else None


def setup(
    layout: SpackLayout,
    packages: Path | None,
    machine_file: Path | None,
    mirror: str | None,
    say: Callable[[str], None],
) -> SpackSettings:
    """Set up Spack: clones, configuration, compilers and build tools. Raises InputError.

    What is not given is as an earlier setup had it.
    """
    if importlib.util.find_spec("clingo") is None:
        raise MachineError(
            f"{sys.executable} has no clingo, Spack's solver;"
            f" `{setup_command('spack')}` installs it"
        )
    pins = load_pins()
    with locked(layout.lock("setup")):
        before = None
        with suppress(InputError):
            before = load(layout)
            packages = packages or (Path(before.packages) if before.packages else None)
            machine_file = machine_file or (
                Path(before.machine_file) if before.machine_file else None
            )
            mirror = mirror or before.mirror
        _check(packages, machine_file, mirror)
        root = find_spack() or _cloned(layout, "spack", pins.spack, say)
        if packages is None:
            _cloned(layout, "packages", pins.packages, say)
        write_config(layout, mirror, packages or recipes(layout, pins))
        version = spack(layout, root, "--version", log="setup").split()[0]
        if int(version.split(".")[0]) < 1:
            raise MachineError(f"{root}: Spack {version} is too old, 1.0 or newer is needed")
        settings = SpackSettings(
            spack=str(root),
            version=version,
            pinned=f"v{version}" == pins.spack.tag,
            packages=str(packages.resolve()) if packages else None,
            machine_file=str(machine_file.resolve()) if machine_file else None,
            mirror=mirror,
        )
        if settings != before:  # until the search is over, nothing is set up
            layout.settings.unlink(missing_ok=True)
        _search(layout, root, say)
        replace_text(layout.settings, json.dumps(asdict(settings), indent=1) + "\n")
    return settings


def _search(layout: SpackLayout, root: Path, say: Callable[[str], None]) -> None:
    """Add what the host has to the user scope, where Spack leaves what is there.

    It is searched again each time, since the host changes.
    """
    say(f"searching for compilers, build tools and Slurm (log: {layout.log('setup')})")
    find = ("external", "find", "--scope", "user")
    find_compilers(layout, root)
    spack(layout, root, *find, "--not-buildable", *BUILD_TOOLS, log="setup")
    spack(layout, root, *find, *FOUND, log="setup")
    known = packages_in(layout.packages, "user scope") if layout.packages.is_file() else {}
    libraries = {name: external for name in LIBRARIES if (external := by_pkg_config(name))}
    if added := {name: external for name, external in libraries.items() if name not in known}:
        text = yaml.safe_dump({"packages": known | added}, sort_keys=False)
        replace_text(layout.packages, text)


def find_compilers(layout: SpackLayout, root: Path) -> None:
    """Add the host's compilers to the user scope."""
    spack(layout, root, "compiler", "find", "--scope", "user", log="setup")


def by_pkg_config(name: str) -> dict[str, Any] | None:
    """Spack's entry of a library that the host can compile with; None without one."""
    version = ask(["pkg-config", "--modversion", name])
    prefix = ask(["pkg-config", "--variable=prefix", name])
    if not (version.ok and prefix.ok and prefix.stdout.strip()):
        return None
    spec = f"{name}@{version.stdout.strip()}"
    return {"externals": [{"spec": spec, "prefix": prefix.stdout.strip()}]}


def _cloned(layout: SpackLayout, name: str, source: Source, say: Callable[[str], None]) -> Path:
    """The pinned clone, made unless it is there."""
    path = layout.clone(name, source.commit)
    if not path.is_dir():
        say(f"cloning {source.git} {source.tag}")
        clone(source.git, source.tag, source.commit, path)
    return path


def _check(packages: Path | None, machine_file: Path | None, mirror: str | None) -> None:
    """Raise InputError for what a build would fail with, or silently ignore, hours later."""
    if packages and not (packages / "repo.yaml").is_file():
        raise InputError(
            f"--packages: {packages} has no repo.yaml; allowed: the folder"
            " repos/spack_repo/builtin of a copy of the recipes"
        )
    if machine_file:
        packages_in(machine_file, "--machine-file")
    scheme, colon, rest = (mirror or "").partition("://")
    if mirror and not colon:
        raise InputError(f"--mirror: {mirror!r} is no URL; allowed: file:///FOLDER, https://...")
    if scheme == "file" and not Path(rest).is_dir():
        raise InputError(
            f"--mirror: {rest} is not a folder; 'spack mirror create' makes one"
            " (docs/workloads.md#spacks-files-and-sites-without-a-network)"
        )


def write_config(layout: SpackLayout, mirror: str | None, builtin: Path) -> None:
    """Write Spack's user scope: one store, caches and stages next to it, no bootstrapping.

    Without `builtin`, Spack would clone other recipes for what it does outside an environment, such
    as finding compilers.
    """
    root = layout.root
    # The store's path is padded, so that a package built here can be moved to a store of any other
    # path without a tool that Spack would have to bootstrap.
    files = {
        "config": {
            "install_tree": {"root": str(layout.store), "padded_length": 128},
            "build_stage": [str(root / "stage")],
            "test_stage": str(root / "test"),
            "source_cache": str(root / "sources"),
            "misc_cache": str(root / "misc"),
            "locks": True,
        },
        "bootstrap": {"enable": False, "root": str(root / "bootstrap")},
        "repos": {"builtin": str(builtin.resolve())},
        "mirrors": {"nimc": {"url": mirror, "signed": False}} if mirror else {},
    }
    layout.config.mkdir(parents=True, exist_ok=True)
    replace_text(layout.slurm_conf, "ClusterName=none\nSlurmctldHost=localhost\n")
    for name, content in files.items():
        text = yaml.safe_dump({name: content}, sort_keys=False)
        replace_text(layout.config / f"{name}.yaml", text)


#: How long git may take to clone, seconds.
_CLONE_S = 3600.0


def clone(git: str, tag: str, commit: str, into: Path) -> None:
    """Make a shallow clone and check that it is the pinned commit."""
    into.parent.mkdir(parents=True, exist_ok=True)
    part = into.with_name(f"{into.name}.part{os.getpid()}")
    try:
        _git("clone", "--quiet", "--depth", "1", "--branch", tag, git, str(part))
        head = _git("-C", str(part), "rev-parse", "HEAD").strip()
        if head != commit:
            raise MachineError(f"{git}: tag {tag} is {head}, not the pinned {commit}")
        part.rename(into)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _git(*words: str) -> str:
    return ask(["git", *words], timeout_s=_CLONE_S).required()
