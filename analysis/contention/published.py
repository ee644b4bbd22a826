"""The nine published parameter sets (Tables 3 to 11) and prediction errors (Table 2)."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from analysis.contention.parameters import Model, Parameters
from analysis.errors import InputError

SOCKETS = 2


def names() -> list[str]:
    """Names of the published machines."""
    return list(_document()["platforms"])


def load(name: str) -> Model:
    """The published model of one machine. Raises InputError for an unknown name."""
    platforms = _document()["platforms"]
    if name not in platforms:
        raise InputError(f"--platform {name}: must be one of {', '.join(platforms)}")
    facts = platforms[name]
    return Model(
        name=name,
        cores=facts["cores_per_socket"],
        numa_per_socket=facts["numa_per_socket"],
        numa_nodes=SOCKETS * facts["numa_per_socket"],
        local=_parameters(facts["local"]),
        remote=_parameters(facts["remote"]),
        published=True,
    )


def errors_percent(name: str) -> dict[str, float | None]:
    """The published mean absolute percentage errors of one machine (Table 2 and section 4.2)."""
    errors: dict[str, float | None] = _document()["mape_percent"][name]
    return errors


def _parameters(row: dict[str, float]) -> Parameters:
    # The tables give MB/s with one decimal, which is exact in whole bytes.
    si = {
        name.replace("_mb_s", "_b_s"): float(round(value * 1e6)) if "_mb_s" in name else value
        for name, value in row.items()
    }
    return Parameters(**si)  # type: ignore[arg-type]


def _document() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("published.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document
