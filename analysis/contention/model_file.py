"""The file of a model: JSON as `Model.as_dict` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from analysis.contention.parameters import MOST, SCHEMA, Model
from nimc.base.errors import InputError
from nimc.base.json_limits import read_json, validated

_MODEL = TypeAdapter(Model)


def load(path: Path) -> Model:
    """The model in a file. Raises InputError with file and field."""
    try:
        document = read_json(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    return from_dict(document, path)


def from_dict(document: Any, path: Path) -> Model:
    """Inverse of `Model.as_dict`; `path` is named in errors."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(f"{path}: not a model file; allowed: a mapping with schema {SCHEMA}")
    model: Model = validated(_MODEL, document, path)
    if (groups := model.groups) and not model.cores <= groups.size * groups.count <= MOST:
        raise InputError(
            f"{path}: groups: {groups.size} x {groups.count} cores found; allowed: {model.cores} to"
            f" {MOST} together"
        )
    return model
