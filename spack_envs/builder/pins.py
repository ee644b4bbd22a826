"""`spack_envs/pins.yaml`: the versions of Spack and of its recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analysis.checkout import ROOT
from analysis.errors import InputError

ENVIRONMENTS = ROOT / "spack_envs"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Record):
    """A commit of a repository; the tag is for shallow clones."""

    git: Annotated[str, Field(pattern=r"^https://\S+\.git$")]
    tag: str
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Pins(_Record):
    """Content of the file: Spack and its recipes, which are updated together."""

    spack: Source
    packages: Source


def load(folder: Path = ENVIRONMENTS) -> Pins:
    """The pins; raises InputError if the file is invalid."""
    path = folder / "pins.yaml"
    try:
        return Pins.model_validate(yaml.safe_load(path.read_text()))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path.name}: {field}: {first['msg']}") from None


def known_environments(folder: Path = ENVIRONMENTS) -> list[str]:
    """Every environment, by its folder's name."""
    return sorted(path.parent.name for path in folder.glob("*/spack.yaml"))
