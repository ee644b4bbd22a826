"""Finds an installed Spack, or clones the pinned one, and writes its configuration."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from nimc.base.checkout import ROOT
from nimc.base.errors import InputError, MachineError, first_fault
from nimc.base.files import replace_text
from nimc.base.marked_yaml import Record
from nimc.spack.tool import SpackLayout, clone, locked, require_clingo, spack

ENVIRONMENTS = ROOT / "spack_envs"


class Source(Record):
    """A commit of a repository; the tag is for shallow clones."""

    git: Annotated[str, Field(pattern=r"^https://\S+\.git$")]
    tag: str
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Pins(Record):
    """`spack_envs/pins.yaml`: Spack and its recipes, which are updated together."""

    spack: Source
    packages: Source


def load_pins(folder: Path = ENVIRONMENTS) -> Pins:
    """The pins; raises InputError if the file is invalid."""
    path = folder / "pins.yaml"
    try:
        return Pins.model_validate(yaml.safe_load(path.read_text()))
    except ValidationError as error:
        raise InputError(f"{path.name}: {first_fault(error)}") from None


def known_environments() -> list[str]:
    """Every environment, by its folder's name."""
    return sorted(path.parent.name for path in ENVIRONMENTS.glob("*/spack.yaml"))


#: Build tools that every host has: never built.
BUILD_TOOLS = (
    *("gmake", "m4", "perl", "autoconf", "automake", "libtool", "pkgconf"),
    *("diffutils", "findutils", "tar", "bison", "flex", "gettext"),
)
#: Taken from the host if found, else built.
FOUND = ("cmake", "python", "openssl", "curl", "git")


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


_SETTINGS = TypeAdapter(SpackSettings)


def load(layout: SpackLayout) -> SpackSettings:
    """The settings; raises InputError if there are none."""
    if not layout.settings.is_file():
        raise InputError(
            f"Spack is not set up for {layout.machine}: nimc spack setup --machine {layout.machine}"
        )
    try:
        return _SETTINGS.validate_json(layout.settings.read_bytes())
    except ValueError:
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
    layout: SpackLayout,
    packages: Path | None,
    machine_file: Path | None,
    mirror: str | None,
    say: Callable[[str], None],
) -> SpackSettings:
    """Set up Spack: clones, configuration, compilers and build tools. Raises InputError."""
    require_clingo()
    _check(packages, machine_file, mirror)
    pins = load_pins()
    with locked(layout.lock("setup")):
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
        before = None
        with suppress(InputError):
            before = load(layout) if (layout.config / "packages.yaml").is_file() else None
        # Compilers and build tools are searched once with each Spack and recipes.
        used = settings.spack, settings.version, settings.packages
        if before is None or (before.spack, before.version, before.packages) != used:
            layout.settings.unlink(missing_ok=True)
            say(f"searching for compilers and build tools (log: {layout.log('setup')})")
            find = ("external", "find", "--scope", "user")
            spack(layout, root, "compiler", "find", "--scope", "user", log="setup")
            spack(layout, root, *find, "--not-buildable", *BUILD_TOOLS, log="setup")
            spack(layout, root, *find, *FOUND, log="setup")
        # Written last: without settings, an earlier search may be incomplete.
        replace_text(layout.settings, json.dumps(asdict(settings), indent=1) + "\n")
    return settings


def _cloned(layout: SpackLayout, what: str, source: Source, say: Callable[[str], None]) -> Path:
    """The pinned clone, made unless it is there."""
    path = layout.clone(what, source.commit)
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
        raise InputError(f"--mirror: {rest} is not a folder; 'nimc spack mirror' makes one")


def packages_in(path: Path, field: str) -> dict[str, Any]:
    """The packages in a file, by name. Raises InputError unless that is what it has."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{field}: {path}: {' '.join(str(error).split())}") from None
    packages = content.get("packages") if isinstance(content, dict) else None
    rules = packages.values() if isinstance(packages, dict) else [None]
    if not all(isinstance(each, dict) for each in rules):
        raise InputError(
            f"{field}: {path} has no section 'packages'; allowed: 'packages:' with a mapping for"
            " each package (docs/spack.md)"
        )
    return dict(packages or {})


def recipes(layout: SpackLayout, pins: Pins) -> Path:
    """The builtin recipes within the pinned clone."""
    clone_path = layout.clone("packages", pins.packages.commit)
    return clone_path / "repos" / "spack_repo" / "builtin"


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
    for name, content in files.items():
        text = yaml.safe_dump({name: content}, sort_keys=False)
        replace_text(layout.config / f"{name}.yaml", text)
