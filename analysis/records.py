"""Rules for free facts in `run.json` and provenance that are computed with, or name files.

All other facts are only shown.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from analysis.errors import InputError


def plain_name(name: str) -> str:
    """The name of a machine, a campaign, a run or a case, which may name a file.

    Raises ValueError for one that could name a file elsewhere, or cannot be printed.
    """
    if name in ("", ".", "..") or "/" in name or any(map(_is_control, name)):
        raise ValueError("must be a plain name, without '/' and control characters")
    return name


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


PlainName = Annotated[str, AfterValidator(plain_name)]
_Node = Annotated[int, Field(ge=0, lt=1_000_000)]


class HostFacts(BaseModel):
    """A host (`injection.machine.host`)."""

    sockets: Annotated[int, Field(ge=1)] = 1
    numa_nodes: list[dict[str, Any]] = []


class SiteFacts(BaseModel):
    """A site file (`injection.machine.machine`)."""

    #: Case -> figure of merit without writers, in SI units.
    references: dict[str, Annotated[float, Field(gt=1e-30, lt=1e30)]] | None = None
    reference_tolerance: Annotated[float, Field(ge=0, lt=1e30)] | None = None


class HeaderFacts(BaseModel):
    """`RunHeader.facts`."""

    host: HostFacts = HostFacts()
    site: SiteFacts | None = None


class NumaFacts(BaseModel):
    """Levels and nodes of the campaign `numa` (`reframe_tests.numa`)."""

    numa_nodes: Annotated[int, Field(ge=1, lt=1_000_000)]
    nic_node: _Node | None
    places: dict[str, _Node | None] = {}


class OldNumaFacts(NumaFacts):
    """Those of one cell, in schema 1."""

    load: str
    buffer: str | None
    workers: str | None
    direction: str
    buffer_node: _Node | None
    worker_node: _Node | None


def validated(adapter: TypeAdapter[Any], record: Any, path: Path, *within: str) -> Any:
    """What `adapter` makes of a record. Raises InputError with the first field that is invalid.

    `within`: where in the file the record is.
    """
    try:
        return adapter.validate_python(record)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, (*within, *first["loc"]))) or "file"
        found = repr(first["input"])
        found = found if len(found) <= 60 else f"{found[:57]}..."
        rule = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{path}: field '{name}': {rule} (is {found})") from error
