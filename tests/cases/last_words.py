"""Reads the reason that nimc gives for the end of an injector (a program that writes)."""

from collections.abc import Callable
from pathlib import Path

from conductor.injectors import INJECTORS
from conductor.injectors.base import Fault
from records.last_words import Gist, failure_reason
from tests.conductor.injectors.printed import writer


def reason_reader(injector: str) -> Callable[[str, Path], str]:
    """Return a function that finds in all output of a writer why it ended."""

    def read(text: str, _: Path) -> str:
        parser, gist = INJECTORS[injector].parser(writer()), Gist()
        for line in text.splitlines():
            meaning = parser.parse(line)
            gist.add_fault(meaning.text) if isinstance(meaning, Fault) else gist.add(line)
        return failure_reason(1, gist)

    return read
