"""Build backend that only makes editable installs, with setuptools.

Users change configs, campaigns, site files, checks and Spack environments in the checkout, and call
ReFrame on them. A wheel would have none of these files.
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
    """Refuse in one line."""
    raise SystemExit(
        "nimc runs from its checkout and is not built as a wheel: clone it and run 'make campaign',"
        " or 'pip install --editable .' in an environment of your own"
    )


def build_sdist(*_: object) -> NoReturn:
    """Refuse, as `build_wheel` does."""
    build_wheel()
