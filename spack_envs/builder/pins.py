"""`spack_envs/pins.yaml`: versions of Spack and of its recipes for each environment."""

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


class Pin(_Record):
    """Spack and its recipes, which are updated together."""

    spack: Source
    packages: Source


class Pins(_Record):
    """Content of the file."""

    pins: dict[str, Pin]
    #: Environment -> name of its pin; all others use `default`.
    environments: dict[str, str]

    def of(self, environment: str) -> Pin:
        """The pin that builds an environment."""
        return self.pins[self.environments.get(environment, "default")]


def load(folder: Path = ENVIRONMENTS) -> Pins:
    """The pins; raises InputError if the file is invalid."""
    path = folder / "pins.yaml"
    try:
        pins = Pins.model_validate(yaml.safe_load(path.read_text()))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path.name}: {field}: {first['msg']}") from None
    for name, pin in {"(default)": "default", **pins.environments}.items():
        if pin not in pins.pins:
            known = ", ".join(pins.pins)
            raise InputError(
                f"{path.name}: environments.{name}: unknown pin {pin!r}; allowed: {known}"
            )
    return pins


def known_environments(folder: Path = ENVIRONMENTS) -> list[str]:
    """Every environment, by its folder's name."""
    return sorted(path.parent.name for path in folder.glob("*/spack.yaml"))
