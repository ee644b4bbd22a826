"""The two kinds of failure, which `nimc` prints without a traceback, and their exit codes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from records.text import one_line

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class NimcError(Exception):
    """A failure reported to the user without a traceback: each argument is a line."""

    exit_code = 3

    def __str__(self) -> str:
        """The lines. A line break within a line, such as one in a path, is escaped."""
        return "\n".join(one_line(str(line)) for line in self.args)


class InputError(NimcError):
    """Wrong usage or input. The text names the file, the field and what is allowed."""

    exit_code = 2


class MachineError(NimcError):
    """The machine or a tool on it failed."""


# Messages about a wrong value have one form: `FIELD: VALUE found; allowed: ...`.


def shown_value(value: Any) -> str:
    """A value as written in its file, shortened to 60 characters."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def suggestion(word: str, known_words: Iterable[str]) -> str:
    """Return `, did you mean ...?` with the known word most like `word`; empty if none is alike."""
    closest = difflib.get_close_matches(word, list(known_words), n=1)
    return f", did you mean '{closest[0]}'?" if closest else ""


#: Kind of pydantic's error -> allowed values. For other kinds, pydantic's message names them.
_ALLOWED = {
    **dict.fromkeys(("dataclass_type", "dict_type", "model_type"), "a mapping"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "list_type": "a list",
    "string_type": "text",
}


def fault_of(error: ErrorDetails, *keys: str) -> str:
    """One of pydantic's errors in one line; `keys` lead to the record in its file."""
    field = ".".join(map(str, (*keys, *error["loc"]))) or "the file"
    if error["type"] == "missing":
        return f"{field}: missing"
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{field}: unknown key"
    if error["type"] == "value_error":
        return f"{field}: {error['ctx']['error']}"
    requirement = re.sub("^(Input should be|String should) ", "", error["msg"])
    allowed = _ALLOWED.get(error["type"], requirement)
    if error["type"] == "too_short":
        allowed = f"at least {error['ctx']['min_length']}"
    return f"{field}: {shown_value(error['input'])} found; allowed: {allowed}"


def first_fault(error: ValidationError, *keys: str) -> str:
    """The first of pydantic's errors, in the form of `fault_of`."""
    return fault_of(error.errors(include_url=False)[0], *keys)
