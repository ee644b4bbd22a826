"""Reads the pinned versions of Spack and its recipes, the environments, and Spack's set-up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from records.checkout import ROOT
from records.errors import InputError
from records.yaml_file import Record, first_fault_line, load_mapping
from reframe_tests.spack.folders import SpackLayout, spack_setup_command

ENVIRONMENTS_FOLDER = ROOT / "spack_envs"


class Source(Record):
    """A commit of a repository; the tag is for shallow clones."""

    git: Annotated[str, Field(pattern=r"^https://\S+\.git$")]
    tag: str
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Pins(Record):
    """`spack_envs/pins.yaml`: Spack and its recipes, which are updated together."""

    spack: Source
    packages: Source


def load_pins(folder: Path = ENVIRONMENTS_FOLDER) -> Pins:
    """Return the pins. Raises InputError if the file is invalid."""
    document = load_mapping(folder / "pins.yaml")
    try:
        return Pins.model_validate(document.data)
    except ValidationError as error:
        raise InputError(first_fault_line([document], error, Pins)) from None


#: Placeholder for the size in an environment's file, and separator before the size in its name. The
#: size is the number of elements of each array of STREAM.
_SIZE_PLACEHOLDER, _SIZE_SEPARATOR = "$NIMC_SIZE", "@"


def known_environments() -> list[str]:
    """Return the names of all environments. Names of environments with a size end with `@SIZE`."""
    texts = {
        path.parent.name: path.read_text() for path in ENVIRONMENTS_FOLDER.glob("*/spack.yaml")
    }
    return sorted(
        f"{name}{_SIZE_SEPARATOR}SIZE" if _SIZE_PLACEHOLDER in text else name
        for name, text in texts.items()
    )


def environment_text(name: str) -> str:
    """Return the text of the file of an environment: `proxyapps`, or `stream@80000000` with a size.

    Raises InputError for an unknown name or an invalid size.
    """
    folder, separator, size = name.partition(_SIZE_SEPARATOR)
    listed_name = f"{folder}{separator}SIZE" if separator else folder
    allowed = known_environments()
    if listed_name not in allowed:
        raise InputError(f"environment {name!r}: allowed are {', '.join(allowed)}")
    if separator and not re.fullmatch(r"[1-9][0-9]*", size):
        raise InputError(
            f"environment {name!r}: SIZE, the elements of an array, is a whole number from 1"
        )
    return (
        (ENVIRONMENTS_FOLDER / folder / "spack.yaml").read_text().replace(_SIZE_PLACEHOLDER, size)
    )


@dataclass(frozen=True, kw_only=True)
class SpackSettings:
    """Result of `setup`, for later commands."""

    #: Folder of Spack, its version, and whether this is the pinned version.
    spack: str
    version: str
    pinned: bool
    #: Folder of the user's recipes, such as `repos/spack_repo/builtin` of a clone; None: the pinned
    #: ones.
    packages: str | None
    #: The machine's externals, a YAML file with a `packages` section.
    machine_file: str | None
    #: URL of sources and built packages for sites without a network.
    mirror: str | None


_SETTINGS = TypeAdapter(SpackSettings)


def load_settings(layout: SpackLayout) -> SpackSettings:
    """Return the settings. Raises InputError if there are none."""
    if not layout.settings_file.is_file():
        raise InputError(
            f"Spack is not set up for {layout.machine}: `{spack_setup_command(layout.machine)}`"
        )
    try:
        return _SETTINGS.validate_json(layout.settings_file.read_bytes())
    except ValueError:
        raise InputError(
            f"{layout.settings_file}: not what `{spack_setup_command(layout.machine)}` writes:"
            " run it again"
        ) from None


def pinned_recipes(layout: SpackLayout, pins: Pins) -> Path:
    """Return the folder of the builtin recipes in the pinned clone."""
    clone_path = layout.clone_folder("packages", pins.packages.commit)
    return clone_path / "repos" / "spack_repo" / "builtin"
