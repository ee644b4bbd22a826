"""A writer, and what the lines mean that an injector's program printed.

The meaning of a line is for example a row (a rate), a total or a fault.
"""

import re
from typing import Any

from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from tests import made_writers
from tests.captures import CAPTURES


def writer(**changes: Any) -> Writer:
    """Return a writer between two hosts; `changes` replace its fields."""
    return made_writers.writer(**{"address": "10.1.0.2", "port": 20001, **changes})


def meanings(injector: str, text: str, **fields: Any) -> list[Any]:
    """Return the meanings of all lines that have one."""
    parser = INJECTORS[injector].parser(writer(**fields))
    lines = text.splitlines(keepends=True)
    return [meaning for line in lines if (meaning := parser.parse(line)) is not None]


def captured(injector: str, name: str, **fields: Any) -> list[Any]:
    """Return the meanings of a captured output, without the exit status noted at its end."""
    text = (CAPTURES / injector / f"{name}.txt").read_text()
    return meanings(injector, re.sub(r"# (client |server )?rc=.*\n", "", text), **fields)
