"""Finds an installed Spack, or clones the pinned one, and writes its configuration."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from analysis.errors import InputError, MachineError
from spack_envs.builder import pins as pinned
from spack_envs.builder.layout import SpackLayout
from spack_envs.builder.tool import clone, locked, require_clingo, spack

#: Build tools that every host has: never built.
BUILD_TOOLS = (
    *("gmake", "m4", "perl", "autoconf", "automake", "libtool", "pkgconf"),
    *("diffutils", "findutils", "tar", "bison", "flex", "gettext"),
)
#: Taken from the host if found, else built.
FOUND = ("cmake", "python", "openssl", "curl", "git")
#: The store's path is padded to this, so that a package built here can be moved to a store of any
#: other path without a tool that Spack would have to bootstrap.
PADDED_LENGTH = 128
_OLDEST = (1, 0)


@dataclass(frozen=True)
class SpackSettings:
    """Result of `setup`, for later commands."""

    #: Folder of Spack, its version, and whether that is the pinned one.
    spack: str
    version: str
    pinned: bool
    #: Recipes given by the user instead of the pinned ones (folder of `repos/spack_repo/builtin`).
    packages: str | None
    #: The machine's externals, a YAML file with a `packages` section.
    machine_file: str | None
    #: URL of sources and built packages for sites without a network.
    mirror: str | None


def load(layout: SpackLayout) -> SpackSettings:
    """The settings; raises InputError if there are none."""
    if not layout.settings.is_file():
        raise InputError(
            f"Spack is not set up for {layout.machine}: nimc spack setup --machine {layout.machine}"
        )
    try:
        return SpackSettings(**json.loads(layout.settings.read_text()))
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            f"{layout.settings}: not what nimc spack setup writes: run it again"
        ) from None


def find_spack() -> Path | None:
    """The installed Spack: `SPACK_ROOT`, else the one on PATH."""
    if os.environ.get("SPACK_ROOT"):
        root = Path(os.environ["SPACK_ROOT"])
        if not (root / "bin" / "spack").is_file():
            raise InputError(f"SPACK_ROOT: {root} has no bin/spack")
        return root
    found = shutil.which("spack")
    return Path(found).resolve().parent.parent if found else None


def setup(
    layout: SpackLayout, packages: Path | None, machine_file: Path | None, mirror: str | None
) -> SpackSettings:
    """Set up Spack: clones, configuration, compilers and build tools."""
    require_clingo()
    pins = pinned.load()
    with locked(layout.lock("setup")):
        root = find_spack()
        if root is None:
            source = pins.pins["default"].spack
            root = layout.clone("spack", source.commit)
            clone(source.git, source.tag, source.commit, root)
        if packages is None:
            for pin in pins.pins.values():
                source = pin.packages
                path = layout.clone("packages", source.commit)
                clone(source.git, source.tag, source.commit, path)
        write_config(layout, mirror, packages or recipes(layout, pins.pins["default"]))
        version = spack(layout, root, "--version", log="setup").split()[0]
        if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
            raise MachineError(f"{root}: Spack {version} is too old, 1.0 or newer is needed")
        # The settings are written last: without them, an earlier search may be incomplete.
        if not (layout.settings.is_file() and (layout.config / "packages.yaml").is_file()):
            _find_externals(layout, root)
        settings = SpackSettings(
            spack=str(root),
            version=version,
            pinned=f"v{version}" == pins.pins["default"].spack.tag,
            packages=str(packages.resolve()) if packages else None,
            machine_file=str(machine_file.resolve()) if machine_file else None,
            mirror=mirror,
        )
        layout.settings.write_text(json.dumps(asdict(settings), indent=1) + "\n")
    return settings


def _find_externals(layout: SpackLayout, root: Path) -> None:
    spack(layout, root, "compiler", "find", "--scope", "user", log="setup")
    find = ("external", "find", "--scope", "user")
    spack(layout, root, *find, "--not-buildable", *BUILD_TOOLS, log="setup")
    spack(layout, root, *find, *FOUND, log="setup")


def recipes(layout: SpackLayout, pin: pinned.Pin) -> Path:
    """The builtin recipes within a pinned clone."""
    clone_path = layout.clone("packages", pin.packages.commit)
    return clone_path / "repos" / "spack_repo" / "builtin"


def write_config(layout: SpackLayout, mirror: str | None, builtin: Path) -> None:
    """Write Spack's user scope: one store, caches and stages next to it, no bootstrapping.

    Without `builtin`, Spack would clone other recipes for what it does outside an environment, such
    as finding compilers.
    """
    root = layout.root
    files = {
        "config": {
            "install_tree": {"root": str(layout.store), "padded_length": PADDED_LENGTH},
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
    for name, content in files.items():
        text = yaml.safe_dump({name: content}, sort_keys=False)
        (layout.config / f"{name}.yaml").write_text(text)
