"""A parser as the fuzzer sees it: bytes in; a result, or an error that it documents, out."""

import dataclasses
import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.captures import CAPTURES, RUN_QUICK

#: Files of the recorded run that are changed: header, provenance, the samples of one case.
RUN_FILES = {
    str(path.relative_to(RUN_QUICK)): path.read_text()
    for path in sorted(RUN_QUICK.rglob("*.json*"))
    if path.name != "lammps.jsonl" and path.parent.name != "counters"
}
#: No parser may take longer for one input: processor time; and with waiting, on a busy host.
_LIMIT_S, _WAIT_S = 20.0, 300.0


@dataclasses.dataclass(frozen=True)
class Target:
    name: str
    #: Input, and a folder for files that the parser reads -> whatever it returns.
    read: Callable[[bytes, Path], object]
    seeds: Sequence[bytes]
    #: Errors that the parser documents.
    allowed: tuple[type[Exception], ...] = ()


class TooSlow(BaseException):
    """The parser did not return in time; no handler of exceptions stops it."""


def check(target: Target, text: bytes, folder: Path) -> None:
    """The property of every parser. Any exception that leaves here is a fault of the parser."""
    late = TooSlow(f"{_LIMIT_S:g} s of processor time, or {_WAIT_S:g} s with waiting")
    with limited(_LIMIT_S, _WAIT_S, late):
        said = "one line"
        try:
            result = target.read(text, folder)
        except target.allowed as error:
            result, said = None, str(error)
        assert len(said.splitlines()) == 1, f"not one line: {said!r}"
        assert is_finite(result), result


def is_finite(result: object) -> bool:
    """Whether all figures of a result are: those of records and lists, too."""
    if isinstance(result, float):
        return math.isfinite(result)
    if dataclasses.is_dataclass(result):
        result = [getattr(result, field.name) for field in dataclasses.fields(result)]
    if isinstance(result, Mapping):
        result = [*result.values()]
    return not isinstance(result, list | tuple) or all(map(is_finite, result))


def captures(pattern: str) -> list[bytes]:
    found = [path.read_bytes() for path in sorted(CAPTURES.glob(pattern))]
    assert found, pattern
    return found


def in_file(name: str, text: bytes, folder: Path) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


def tree(files: Mapping[str, str]) -> bytes:
    """Files of a folder as one input: `== PATH` and the file's text, each."""
    return "\n".join(f"== {name}\n{text}" for name, text in files.items()).encode()


def lay_out(text: bytes, folder: Path, names: Mapping[str, str]) -> Path:
    """The folder with the files of `tree`; only those of `names`."""
    parts = (part.partition(b"\n") for part in text.split(b"== ")[1:])
    contents = {name: content for name, _, content in parts}
    for name in names:
        in_file(name, contents.get(name.encode(), b""), folder)
    return folder


@contextmanager
def limited(cpu_s: float, wait_s: float, late: BaseException) -> Iterator[None]:
    """Raises `late` after so much processor time, or so long, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise late

    timers = (
        (signal.ITIMER_PROF, signal.SIGPROF, cpu_s),
        (signal.ITIMER_REAL, signal.SIGALRM, wait_s),
    )
    before = [signal.signal(signum, stop) for _, signum, _ in timers]
    for timer, _, limit_s in timers:
        signal.setitimer(timer, limit_s)
    try:
        yield
    finally:
        for (timer, signum, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(signum, handler)
