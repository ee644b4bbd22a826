"""Checks a parser or a command with one input: it must give a result or a documented error.

`Target` describes a parser or a command. It is a row of the tables in `parsers` and
`nimc_commands`.
"""

import dataclasses
import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.captures import CAPTURES, RUN_QUICK

#: Files of the recorded run that are damaged: header, provenance, and the samples of one case.
RUN_FILES = {
    str(path.relative_to(RUN_QUICK)): path.read_text()
    for path in sorted(RUN_QUICK.rglob("*.json*"))
    if path.name != "lammps.jsonl" and path.parent.name != "counters"
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """A parser, or a command of nimc."""

    name: str
    #: Function that reads an input and returns the result. It may write files that it needs to the
    #: folder, which is empty.
    read: Callable[[bytes, Path], object]
    #: Valid inputs, or a function that makes them.
    seeds: Sequence[bytes] | Callable[[], Sequence[bytes]]
    #: Documented errors that `read` may raise. Their text must be one line.
    allowed: tuple[type[Exception], ...] = ()
    #: Limits for one input, seconds: processor time, and elapsed time, which is longer on a busy
    #: host.
    cpu_s: float = 20.0
    wait_s: float = 300.0

    def valid(self) -> Sequence[bytes]:
        return self.seeds() if callable(self.seeds) else self.seeds


class TooSlow(BaseException):
    """A parser or a command took too long.

    This is no `Exception`, so that no handler of exceptions in the program catches it.
    """


def check(target: Target, text: bytes, folder: Path) -> bool:
    """Give an input to a target; return True if it was read, False if it was refused.

    Raises an exception if the target has a fault: it takes too long, raises an error that is not
    documented, or gives a figure that is not finite.
    """
    late = TooSlow(f"{target.cpu_s:g} s of processor time, or {target.wait_s:g} s with waiting")
    with limited(target.cpu_s, target.wait_s, late):
        refusal, result = None, None
        try:
            result = target.read(text, folder)
        except target.allowed as error:
            refusal = str(error)
        assert refusal is None or len(refusal.splitlines()) == 1, f"not one line: {refusal!r}"
        assert is_finite(result), result
        return refusal is None


def is_finite(result: object) -> bool:
    """Return whether all figures of a result are finite, also those in records and lists."""
    if isinstance(result, float):
        return math.isfinite(result)
    if dataclasses.is_dataclass(result):
        result = [getattr(result, field.name) for field in dataclasses.fields(result)]
    if isinstance(result, Mapping):
        result = [*result.values()]
    return not isinstance(result, list | tuple) or all(map(is_finite, result))


def captures(pattern: str) -> list[bytes]:
    texts = [path.read_bytes() for path in sorted(CAPTURES.glob(pattern))]
    assert texts, pattern
    return texts


def in_file(name: str, text: bytes, folder: Path) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


def joined_files(files: Mapping[str, str]) -> bytes:
    """Join files of a folder into one text: a line `== PATH` before the text of each file."""
    return "\n".join(f"== {name}\n{text}" for name, text in files.items()).encode()


def lay_out(text: bytes, folder: Path, names: Mapping[str, str]) -> Path:
    """Write files of a text made by `joined_files` to a folder, and return the folder.

    Only files that are in `names` are written. A file that the text does not have is empty.
    """
    parts = (part.partition(b"\n") for part in text.split(b"== ")[1:])
    contents = {name: content for name, _, content in parts}
    for name in names:
        in_file(name, contents.get(name.encode(), b""), folder)
    return folder


@contextmanager
def limited(cpu_s: float, wait_s: float, late: BaseException) -> Iterator[None]:
    """Raise `late` after `cpu_s` of processor time, or after `wait_s` of elapsed time.

    There are no limits in threads other than the main thread.
    """
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
