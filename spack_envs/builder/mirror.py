"""Mirrors for sites without a network: sources and built packages of environments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.errors import InputError
from spack_envs.builder.build import read
from spack_envs.builder.layout import SpackLayout
from spack_envs.builder.setup import SpackSettings
from spack_envs.builder.tool import locked, spack


def make_mirror(
    layout: SpackLayout, settings: SpackSettings, folder: Path, names: Iterable[str]
) -> dict[str, Any]:
    """Fill `folder`; raises InputError for an environment that is not built."""
    root = Path(settings.spack)
    for name in names:
        if read(layout, name) is None:
            raise InputError(f"environment {name!r} is not built: nimc spack build {name}")
        here = ("-e", str(layout.environment(name)))
        with locked(layout.lock(name)):
            spack(layout, root, *here, "mirror", "create", "-d", str(folder), "--all", log=name)
            push = ("buildcache", "push", "--unsigned", "--update-index", str(folder))
            spack(layout, root, *here, *push, log=name)
    return {"mirror": f"file://{folder}", "environments": list(names)}
