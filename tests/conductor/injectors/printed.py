"""A writer, and what lines that an injector's program printed mean for it."""

import re
from typing import Any

from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from tests import made_writers
from tests.captures import CAPTURES


def writer(**changes: Any) -> Writer:
    """Between two hosts, unless changed."""
    return made_writers.writer(**{"address": "10.1.0.2", "port": 20001, **changes})


def meanings(injector: str, text: str, **fields: Any) -> list[Any]:
    """What the lines mean that mean anything."""
    parser = INJECTORS[injector].parser(writer(**fields))
    lines = text.splitlines(keepends=True)
    return [meaning for line in lines if (meaning := parser.parse(line)) is not None]


def captured(injector: str, name: str, **fields: Any) -> list[Any]:
    """The same of a captured output, behind whose last line its exit status may have been noted."""
    text = (CAPTURES / injector / f"{name}.txt").read_text()
    return meanings(injector, re.sub(r"# (client |server )?rc=.*\n", "", text), **fields)
