"""Reads YAML files strictly, with the line of each value.

The reader is stricter than PyYAML:

- Only `true` and `false` are truth values, so the arms `off` and `on` stay words.
- Numbers are decimal. `010`, which may mean 8, is text.
- Duplicate keys, anchors, tags, and keys that are not words are refused.
- Huge files and encodings other than UTF-8 are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from records import units
from records.errors import InputError, fault_of, shown_value, suggestion
from records.files import read_regular
from records.text import one_line

#: Keys and list indices that lead to a value.
Keys = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
#: YAML type -> pattern of a plain scalar, and the characters that it may begin with.
_PLAIN_SCALARS = {
    "null": (r"~|null|", ["~", "n", ""]),
    "bool": (r"true|false", ["t", "f"]),
    # Longer numbers stay text, since they are mistakes, and Python refuses to convert very long
    # ones.
    "int": (r"[-+]?(0|[1-9][0-9]{0,17})", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,3})?",
        list("-+.0123456789"),
    ),
}
#: Maximum size of a file, bytes.
_MAX_B = 16 * 2**20
#: Maximum depth of nested mappings and lists.
_MAX_DEPTH = 100


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own interface


for _name, (_pattern, _starts) in _PLAIN_SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), _starts)


@dataclass(kw_only=True)
class YamlDocument:
    """A file's data and the line of each of its values and keys, counted from 1."""

    path: Path
    text: str = ""
    data: Any = None
    lines: dict[Keys, int] = field(default_factory=dict)
    key_lines: dict[Keys, int] = field(default_factory=dict)
    #: The option that each value comes from, if a command has made the text from its options.
    options: dict[Keys, str] = field(default_factory=dict)

    def line(self, keys: Keys) -> int:
        """Line of a value; if it is unknown, the line of the nearest value that contains it."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 1)

    def option(self, keys: Keys) -> str:
        """The option that a value, or the nearest value that contains it, comes from; or empty."""
        while keys and keys not in self.options:
            keys = keys[:-1]
        return self.options.get(keys, "")


def load(path: Path) -> YamlDocument:
    """Read a file. Raises InputError, for invalid YAML with the line."""
    return parse(_text(path), path)


def parse(text: str, path: Path) -> YamlDocument:
    """Parse a text; errors name the file `path`. Raises InputError as `load` does."""
    document = YamlDocument(path=path, text=text)
    try:
        _refuse_deep(text, document)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is not None:
            document.data = _value(node, (), document, loader, set())
    except yaml.YAMLError as error:
        mark, problem = None, str(error)
        if isinstance(error, yaml.MarkedYAMLError):
            mark = error.problem_mark or error.context_mark
            problem = str(error.problem or error.context)
        line = mark.line + 1 if mark else 1
        fault = " ".join(problem.split())
        lines_from_mark = text.splitlines()[mark.line :] if mark else []
        if lines_from_mark and "\t" in lines_from_mark[0]:
            fault = f"{fault}; a tab is in this line, and YAML is indented with spaces"
        raise InputError(one_line(f"{path}:{line}: invalid YAML: {fault}")) from error
    return document


def _refuse_deep(text: str, document: YamlDocument) -> None:
    """Raise InputError for a text that is nested too deeply.

    For such a text, libyaml would crash when it composes nodes. Its events can be read safely,
    since libyaml yields them one after the other.
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise InputError(
                f"{document.path}:{line}: nested deeper than allowed: {_MAX_DEPTH} levels"
            )


def _text(path: Path) -> str:
    try:
        content = read_regular(path, _MAX_B, follow=True)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(one_line(f"{path}: {reason}")) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8 text") from error


def _value(
    node: yaml.Node, keys: Keys, document: YamlDocument, loader: _Loader, visited: set[int]
) -> Any:
    """Return the value of a node; add its line, and the lines of all values in it, to `document`.

    `visited` has the ids of the nodes so far, since an alias is a node that comes again. Raises
    InputError for content that is refused.
    """
    document.lines[keys] = node.start_mark.line + 1
    if id(node) in visited:
        _refuse(document, node, "an alias (*) is not allowed; write the value out")
    visited.add(id(node))
    yaml_type = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.MappingNode) and yaml_type == "map":
        values = {}
        for key, value in node.value:
            if key.tag != f"{_TAG}str" or not isinstance(key.value, str):
                _refuse(document, key, "a key must be a word")
            value_keys: Keys = (*keys, key.value)
            if first_line := document.key_lines.get(value_keys):
                _refuse(document, key, f"duplicate key '{key.value}', first in line {first_line}")
            document.key_lines[value_keys] = key.start_mark.line + 1
            values[key.value] = _value(value, value_keys, document, loader, visited)
        return values
    if isinstance(node, yaml.SequenceNode) and yaml_type == "seq":
        return [
            _value(item, (*keys, index), document, loader, visited)
            for index, item in enumerate(node.value)
        ]
    if not isinstance(node, yaml.ScalarNode) or yaml_type not in ("str", *_PLAIN_SCALARS):
        _refuse(document, node, f"the tag {node.tag!r} is not allowed; write plain values")
    if yaml_type == "str":
        return node.value
    pattern, _ = _PLAIN_SCALARS[yaml_type]
    if not re.fullmatch(pattern, node.value):  # such as `!!int x`
        _refuse(document, node, f"{node.value!r} is not of type {yaml_type}")
    return loader.construct_object(node)


def _refuse(document: YamlDocument, node: yaml.Node, fault: str) -> NoReturn:
    raise InputError(one_line(f"{document.path}:{node.start_mark.line + 1}: {fault}"))


# Errors, with their lines, in a site file and in the file that it includes.


def load_mapping(path: Path) -> YamlDocument:
    """Read a file that holds a mapping. Raises InputError."""
    document = load(path)
    if not isinstance(document.data, dict):
        shown = shown_value(document.data)
        raise InputError(f"{path}:1: {shown} found; allowed: a mapping of keys")
    return document


def line_of(files: Sequence[YamlDocument], keys: Keys) -> str:
    """`FILE:LINE` of a value, in the last of the files that has its first key."""
    with_key = [file for file in files if keys and keys[0] in file.data]
    document = with_key[-1] if with_key else files[0]
    return f"{document.path}:{document.line(keys)}"


def first_fault_line(
    files: Sequence[YamlDocument], error: ValidationError, model: type[BaseModel]
) -> str:
    """The first error on one line: file, line, field, what was found and what is allowed.

    An unknown key comes before others: it may be the misspelled name of a key that is missing.
    """
    faults = error.errors(include_url=False)
    details = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
    keys: Keys = details["loc"]
    fault = fault_of(details)
    if details["type"] == "extra_forbidden":
        fields = containing_model(model, keys).model_fields.items()
        names = [field.alias or name for name, field in fields]
        fault += f"{suggestion(str(keys[-1]), names)}; allowed: {', '.join(names)}"
    return one_line(f"{line_of(files, keys)}: {fault}")


def field_at(model: type[BaseModel], keys: Keys) -> FieldInfo:
    """The field to which the keys lead; for an item of a list, the field with the list."""
    field = FieldInfo()
    for key in keys:
        if isinstance(key, str) and key in model.model_fields:
            field = model.model_fields[key]
            model = _model_in(field.annotation) or model
    return field


def containing_model(model: type[BaseModel], keys: Keys) -> type[BaseModel]:
    """The model of the mapping that contains the last of the keys."""
    return _model_in(field_at(model, keys[:-1]).annotation) or model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation: `Nic` in `Nic | None`, `Rail` in `list[Rail]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


# Records in files that users write: how strictly they are read, and fields with units.


class Record(BaseModel):
    """A mapping in which unknown keys are refused. Values are not converted, and are read-only."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def quantity(parse_quantity: Callable[[str, str], float], text: object) -> float:
    """Return the value of a field, parsed by a function of `records.units`.

    Raises ValueError, as pydantic expects it, for an invalid text.
    """
    try:
        return parse_quantity(str(text), "value")
    except InputError as error:
        raise ValueError(str(error).removeprefix("value: ")) from None


#: A share, as a number or in per cent.
Fraction = Annotated[float, BeforeValidator(units.fraction)]
#: Quantities with their units, above zero.
Duration = Annotated[float, BeforeValidator(partial(quantity, units.duration_s)), Field(gt=0)]
Size = Annotated[int, BeforeValidator(partial(quantity, units.size_b)), Field(gt=0)]
Rate = Annotated[float, BeforeValidator(partial(quantity, units.rate_b_s)), Field(gt=0)]
