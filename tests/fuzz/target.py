"""A parser as the fuzzer sees it: bytes in; a result, or an error that it documents, out."""

import math
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.captures import RUN_QUICK

CAPTURES = Path(__file__).parents[1] / "captures"
#: Files of the recorded run that are changed: header, provenance, the samples of one case.
RUN_FILES = {
    str(path.relative_to(RUN_QUICK)): path.read_text()
    for path in sorted(RUN_QUICK.rglob("*.json*"))
    if path.name != "lammps.jsonl" and path.parent.name != "counters"
}
#: No parser may take longer for one input, seconds.
_LIMIT_S = 20.0
#: The same with waiting, also on a busy host, seconds.
_WAIT_S = 300.0


@dataclass(frozen=True)
class Target:
    name: str
    #: Input, and a folder for files that the parser reads -> whatever it returns.
    read: Callable[[bytes, Path], object]
    seeds: Sequence[bytes]
    #: Errors that the parser documents.
    allowed: tuple[type[Exception], ...] = ()


class TooSlowError(Exception):
    """The parser did not return in time."""


def check(target: Target, text: bytes, folder: Path) -> None:
    """The property of every parser. Any exception that leaves here is a fault of the parser."""
    late = TooSlowError(
        f"more than {_LIMIT_S:g} s of processor time, or {_WAIT_S:g} s with waiting"
    )
    with limited(_LIMIT_S, _WAIT_S, late):
        try:
            target.read(text, folder)
        except target.allowed as error:
            said = str(error)
            assert said, "an error without a text"
            assert "\n" not in said, f"an error of several lines: {said!r}"


def captures(pattern: str) -> list[bytes]:
    found = [path.read_bytes() for path in sorted(CAPTURES.glob(pattern))]
    assert found, pattern
    return found


def text_of(text: bytes) -> str:
    """As the project reads what a program prints."""
    return text.decode(errors="replace")


def in_file(name: str, text: bytes, folder: Path) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


def tree(files: dict[str, str]) -> bytes:
    """Files of a folder as one input: `== PATH` and the file's text, each."""
    return "\n".join(f"== {name}\n{text}" for name, text in files.items()).encode()


def lay_out(text: bytes, folder: Path, known: dict[str, str]) -> Path:
    """The folder in which the files of `tree` are; only those that are `known` are changed."""
    parts: dict[bytes, bytes] = {}
    for part in text.split(b"== ")[1:]:
        name, _, content = part.partition(b"\n")
        parts[name] = content
    for name in known:
        in_file(name, parts.get(name.encode(), b""), folder)
    return folder


def finite(*values: float | None) -> None:
    """What is returned as a figure must be one."""
    assert all(value is None or math.isfinite(value) for value in values), values


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
