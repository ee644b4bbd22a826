"""What is said of an injector that ended."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from conductor.injectors import INJECTORS
from conductor.injectors.base import Fault, Writer
from records.last_words import Gist, failure


def why(injector: str) -> Callable[[str, Path], str]:
    """Why a writer ended, by all that it printed."""

    def read(text: str, _: Path) -> str:
        parser, gist = INJECTORS[injector].parser(writer()), Gist()
        for line in text.splitlines():
            meaning = parser.parse(line)
            gist.fault(meaning.text) if isinstance(meaning, Fault) else gist.add(line)
        return failure(1, gist)

    return read


def writer(**changes: Any) -> Writer:
    return replace(Writer(0, "o", "t", "10.1.0.2", 20001, 65536), **changes)
