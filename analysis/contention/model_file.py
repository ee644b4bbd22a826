"""The file of a model: JSON as `Model.as_dict` writes it, checked field by field when read."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from analysis.contention.evaluate import CORES, LARGEST, PLACEMENTS, RATES
from analysis.contention.parameters import (
    KINDS,
    SCHEMA,
    Band,
    Bands,
    Groups,
    Model,
    Parameters,
    Shape,
)
from analysis.contention.sweep import MOST_B_S, ORDERS
from nimc.base.errors import InputError

#: Most cores per socket that a model file may have, and NUMA nodes: each pair of them is predicted.
MOST = 4096
MOST_NODES = 256
_SIDES = ("local", "remote")


def load(path: Path) -> Model:
    """The model in a file. Raises InputError with file and field."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    return from_dict(document, str(path))


def from_dict(document: Any, source: str) -> Model:
    """Inverse of `Model.as_dict`; `source` names the file in errors."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(f"{source}: not a model file (`schema` must be {SCHEMA})")
    try:
        remote = document["remote"]
        unidentified = dict(_items(document, "unidentified", source))
        kind = document["kind"]
        if kind not in KINDS:
            raise InputError(f"{source}: kind: must be {' or '.join(KINDS)}, not {kind!r}")
        return Model(
            name=str(document["name"]),
            cores=_count(document["cores"], f"{source}: cores"),
            numa_per_socket=_count(document["numa_per_socket"], f"{source}: numa_per_socket"),
            numa_nodes=_whole(document["numa_nodes"], f"{source}: numa_nodes", MOST_NODES),
            local=_parameters(document["local"], f"{source}: local"),
            remote=None if remote is None else _parameters(remote, f"{source}: remote"),
            kind=kind,
            published=bool(document.get("published", False)),
            reach={
                str(k): _count(v, f"{source}: reach: {k}")
                for k, v in _items(document, "reach", source)
            },
            unidentified={
                side: {name: str(why) for name, why in _items(unidentified, side, source)}
                for side in unidentified
            },
            notes=_notes(document.get("notes"), f"{source}: notes"),
            shapes={
                side: None if shape is None else _shape(shape, f"{source}: shapes: {side}")
                for side, shape in _named(document, "shapes", _SIDES, source)
            },
            comm_alone_b_s={
                _node(node, f"{source}: comm_alone_b_s"): _rate(
                    rate, f"{source}: comm_alone_b_s: {node}"
                )
                for node, rate in _items(document, "comm_alone_b_s", source)
            },
            groups=_groups(document.get("groups"), document["cores"], f"{source}: groups"),
            bands={
                name: _bands(bands, f"{source}: bands: {name}")
                for name, bands in _named(document, "bands", (*_SIDES, "others"), source)
            },
        )
    except KeyError as error:
        raise InputError(f"{source}: field {error.args[0]} is missing") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"{source}: {error}") from None


def _count(value: Any, where: str) -> int:
    return _whole(value, where, MOST)


def _whole(value: Any, where: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(f"{where}: must be a whole number from 1 to {most}, not {value!r}")
    return value


def _parameters(values: Any, where: str) -> Parameters:
    if not isinstance(values, dict):
        raise InputError(f"{where}: must be a mapping of the ten parameters")
    names = [f.name for f in fields(Parameters)]
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f"{where}: {missing[0]} is missing (null if unknown)")
    return Parameters(**{name: _figure(name, values[name], where) for name in names})


def _figure(name: str, value: Any, where: str) -> Any:
    """One parameter: a number of cores is whole; a rate is a float, which never overflows."""
    if value is None:
        return None
    whole, signed = name.startswith("n_"), name.startswith("delta_")
    largest = MOST if whole else MOST_B_S
    if (
        isinstance(value, bool)
        or not isinstance(value, int if whole else (int, float))
        or not abs(value) <= largest  # nor NaN
        or (value < 0 and not signed)
    ):
        kind = f"a whole number up to {MOST}" if whole else "a number"
        allowed = kind if signed else f"{kind}, zero or more,"
        raise InputError(f"{where}: {name} must be {allowed} or null, not {value!r}")
    return int(value) if whole else float(value)


def _named(
    document: dict[str, Any], field: str, names: tuple[str, ...], source: str
) -> list[tuple[str, Any]]:
    """The items of an optional mapping with these keys only."""
    found = _items(document, field, source)
    if unknown := {name for name, _ in found} - set(names):
        raise InputError(f"{source}: {field}: must be {', '.join(names)}, not {min(unknown)!r}")
    return found


def _items(document: dict[str, Any], field: str, source: str) -> list[tuple[str, Any]]:
    """The items of an optional mapping."""
    found = document.get(field) or {}
    if not isinstance(found, dict):
        raise InputError(f"{source}: {field}: must be a mapping, not {found!r}")
    return list(found.items())


def _notes(values: Any, where: str) -> list[str]:
    if not isinstance(values or [], list):
        raise InputError(f"{where}: must be a list of texts, not {values!r}")
    return [str(note) for note in values or []]


def _shape(values: Any, where: str) -> Shape:
    if not isinstance(values, dict):
        raise InputError(f"{where}: must be a mapping or null")
    group = values.get("group_b_s")
    loss = values.get("group_loss_b_s", 0.0)
    return Shape(
        softness=_number(values.get("softness"), f"{where}: softness", 0.0, 1.0),
        loss_from=_number(values.get("loss_from"), f"{where}: loss_from", 0.0, 2 * MOST),
        loss_to=_number(values.get("loss_to"), f"{where}: loss_to", 0.0, 4 * MOST),
        group_b_s=None if group is None else _rate(group, f"{where}: group_b_s"),
        group_loss_b_s=_number(loss, f"{where}: group_loss_b_s", -MOST_B_S, MOST_B_S),
    )


def _groups(values: Any, cores: int, where: str) -> Groups | None:
    if values is None:
        return None
    if not isinstance(values, dict):
        raise InputError(f"{where}: must be a mapping or null")
    if values.get("order") not in ORDERS:
        raise InputError(
            f"{where}: order: must be {' or '.join(ORDERS)}, not {values.get('order')!r}"
        )
    size, count = (_count(values.get(key), f"{where}: {key}") for key in ("size", "count"))
    if not cores <= size * count <= MOST:
        raise InputError(
            f"{where}: must have {cores} to {MOST} cores together, not {size} x {count}"
        )
    return Groups(size, count, values["order"], bool(values.get("in_step", False)))


def _bands(values: Any, where: str) -> Bands:
    if not isinstance(values, dict) or values.get("held_out") not in (PLACEMENTS, CORES):
        raise InputError(f"{where}: held_out: must be {PLACEMENTS!r} or {CORES!r}")
    return Bands(
        values["held_out"],
        **{rate: _band(values.get(rate), f"{where}: {rate}") for rate in RATES},
    )


def _band(values: Any, where: str) -> Band | None:
    if values is None:
        return None
    if not isinstance(values, dict):
        raise InputError(f"{where}: must be a mapping or null")
    return Band(
        _number(values.get("width"), f"{where}: width", 0.0, LARGEST),
        _number(values.get("mean"), f"{where}: mean", 0.0, LARGEST),
        _whole(values.get("points"), f"{where}: points", 10**9),
    )


def _node(key: Any, where: str) -> int:
    """A node's number; a key of JSON is text."""
    if not (str(key).isascii() and str(key).isdigit() and int(str(key)[:9]) < MOST):
        raise InputError(f"{where}: must have NUMA nodes as keys, not {key!r}")
    return int(key)


def _rate(value: Any, where: str) -> float:
    return _number(value, where, 0.0, MOST_B_S)


def _number(value: Any, where: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InputError(f"{where}: must be a number from {least:g} to {most:g}, not {value!r}")
    return float(value)
