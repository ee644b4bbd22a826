"""Build backend: setuptools', for editable installs alone.

Configs, campaigns, site files, checks and Spack environments are files of the checkout, which users
change and ReFrame is called on; a wheel would have none of them.
"""

from __future__ import annotations

from typing import NoReturn

from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "prepare_metadata_for_build_editable",
]


def build_wheel(*_: object) -> NoReturn:
    """Ends with one line."""
    raise SystemExit(
        "nimc runs from its checkout and is not built as a wheel: clone it and run 'make campaign',"
        " or 'pip install --editable .' in an environment of your own"
    )


def build_sdist(*_: object) -> NoReturn:
    """Refuse, as `build_wheel` does."""
    build_wheel()
