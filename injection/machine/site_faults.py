"""Errors in a site file and the file that it includes, with their lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from analysis.errors import InputError
from analysis.escape import one_line
from injection.machine import marked_yaml
from injection.machine.marked_yaml import Marked, Place, show


def read(path: Path) -> Marked:
    """A file that is a mapping. Raises InputError."""
    marked = marked_yaml.load(path)
    if not isinstance(marked.data, dict):
        raise InputError(f"{path}:1: {show(marked.data)} found; allowed: a mapping of keys")
    return marked


def where(files: Sequence[Marked], place: Place) -> str:
    """`FILE:LINE` of a value: the last file that has its first key."""
    having = [each for each in files if place and place[0] in each.data]
    marked = having[-1] if having else files[0]
    return f"{marked.path}:{marked.line(place)}"


def first(files: Sequence[Marked], error: ValidationError, model: type[BaseModel]) -> str:
    """The first error: file, line, field, what was found and what is allowed."""
    return one_line(_fault(files, error.errors(include_url=False)[0], model))


def _fault(files: Sequence[Marked], error: ErrorDetails, model: type[BaseModel]) -> str:
    place: Place = error["loc"]
    field = ".".join(map(str, place)) or "the file"
    if error["type"] == "missing":
        what = "missing"
    elif error["type"] == "extra_forbidden":
        what = f"unknown key; allowed: {', '.join(_keys(model, place[:-1]))}"
    elif error["type"] == "value_error":
        what = str(error["ctx"]["error"])
    else:
        allowed = error["msg"].removeprefix("Input should be ")
        what = f"{show(error['input'])} found; allowed: {allowed}"
    return f"{where(files, place)}: {field}: {what}"


def _keys(model: type[BaseModel], place: Place) -> list[str]:
    """The keys of the mapping at a place, as they are written."""
    for part in place:
        # The number of an item in a list names no field.
        if part in model.model_fields:
            model = model_in(model.model_fields[str(part)].annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation: `Nic` in `Nic | None`, `Rail` in `list[Rail]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(model_in, get_args(annotation))), None)
