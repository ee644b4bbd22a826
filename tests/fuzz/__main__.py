"""Fuzz all parsers in turn, guided by coverage, until the time is up: `make fuzz`.

Hypothesis turns bytes into inputs (`fuzz_one_input`). Bytes whose input reaches lines of the
project in an order that no input before reached are kept in `.hypothesis/fuzz/PARSER/`, and bytes
made from them are tried next. Inputs that crash a parser are printed, and the exit status is 1.
membench's command line comes first (`tests.fuzz.options`).
"""

import argparse
import hashlib
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, given, settings

from tests.fuzz import options
from tests.fuzz.mutate import inputs
from tests.fuzz.table import TARGETS
from tests.fuzz.target import Target, check

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / ".hypothesis" / "fuzz"
#: Time for one parser before it is the next one's turn, seconds.
_TURN_S = 5.0
#: Command lines of membench for each second of all fuzzing: about a hundredth of the time.
_LINES_1_S = 1000
#: Bytes from which Hypothesis makes an input, at most.
_MOST_B = 1024
#: An input that fills the memory crashes the fuzzer, not the machine, bytes.
_MEMORY_B = 12 << 30

#: Not where a parser fails.
_SKIP = re.compile(r"/tests/fuzz/|/site-packages/")

#: Code, line and the line before it.
Arc = tuple[Any, int, int]


@contextmanager
def traced(arcs: set[Arc]) -> Iterator[None]:
    """Adds the arcs of the project's own code to `arcs`."""
    inside = tuple(f"{ROOT / each}/" for each in ("analysis", "testbed", "nimc")) + (
        f"{ROOT / 'reframe_tests'}/",
    )

    def enter(frame: FrameType, _event: str, _arg: object) -> Callable[..., Any] | None:
        code, before = frame.f_code, frame.f_lineno
        if not code.co_filename.startswith(inside):
            return None

        def line(frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
            nonlocal before
            if event == "line":
                arcs.add((code, before, frame.f_lineno))
                before = frame.f_lineno
            return line

        return line

    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(None)


class Fuzzer:
    """One parser: what it was given, and which arcs that reached."""

    def __init__(self, target: Target, folder: Path, rng: random.Random) -> None:
        self.target, self._rng = target, rng
        self.tried = 0
        #: Error -> first input that gave it.
        self.crashes: dict[str, bytes] = {}
        self._arcs: set[Arc] = set()
        self._text = b""
        self._kept = CORPUS / target.name.replace("/", "_")
        self._kept.mkdir(parents=True, exist_ok=True)
        self._corpus = [path.read_bytes() for path in sorted(self._kept.iterdir())]
        self._new = list(self._corpus)

        @settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(inputs(target.seeds))
        def holds(text: bytes) -> None:
            self._text = text
            arcs: set[Arc] = set()
            try:
                with traced(arcs):
                    check(target, text, folder)
            finally:
                self._fresh = not arcs <= self._arcs
                self._arcs |= arcs

        self._try: Callable[[bytes], bytes | None] = holds.hypothesis.fuzz_one_input
        for text in target.seeds:
            with traced(self._arcs):
                check(target, text, folder)

    def turn(self, until_s: float) -> None:
        while time.monotonic() < until_s:
            given_ = self._new.pop() if self._new else self._mutant()
            self._fresh = False
            self.tried += 1
            try:
                used = self._try(given_)
            except Exception as error:
                self._crashed(error)
                continue
            if used is not None and self._fresh:
                self._corpus.append(used)
                (self._kept / hashlib.sha256(used).hexdigest()[:16]).write_bytes(used)

    def _mutant(self) -> bytes:
        """Bytes made from the corpus, or new ones."""
        rng = self._rng
        if not self._corpus or rng.random() < 0.2:
            return rng.randbytes(rng.randint(8, _MOST_B))
        made = bytearray(rng.choice(self._corpus))
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(made))
            match rng.randrange(3):
                case 0:
                    made[at : at + 1] = rng.randbytes(1)
                case 1:
                    made[at:at] = rng.randbytes(rng.randint(1, 16))
                case 2:
                    other = rng.choice(self._corpus)
                    made[at:] = other[rng.randint(0, len(other)) :]
        made += rng.randbytes(64)  # so that there is enough of it
        return bytes(made[:_MOST_B])

    def _crashed(self, error: Exception) -> None:
        where = traceback.extract_tb(error.__traceback__)
        own = [each for each in where if not _SKIP.search(each.filename)]
        own = [each for each in own if each.filename.startswith(str(ROOT))] or list(where)
        kind = f"{type(error).__name__} at {own[-1].filename}:{own[-1].lineno}"
        if kind not in self.crashes or len(self._text) < len(self.crashes[kind]):
            if kind not in self.crashes:
                print(f"{self.target.name}: {kind}: {error}"[:300], flush=True)
            self.crashes[kind] = self._text


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("names", nargs="*", help="parsers (all)")
    asked = parser.parse_args()
    faults = 0 if asked.names else _membench(int(asked.seconds * _LINES_1_S), asked.seed)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_B, _MEMORY_B))
    rng = random.Random(asked.seed)
    chosen = [TARGETS[name] for name in asked.names] or list(TARGETS.values())
    until_s = time.monotonic() + asked.seconds
    turn_s = min(_TURN_S, asked.seconds / len(chosen))
    with tempfile.TemporaryDirectory() as place:
        fuzzers = []
        for number, target in enumerate(chosen):
            folder = Path(place, str(number))
            folder.mkdir()
            fuzzers.append(Fuzzer(target, folder, rng))
        while time.monotonic() < until_s:
            for each in fuzzers:
                each.turn(min(time.monotonic() + turn_s, until_s))
    sys.exit(1 if faults + _report(fuzzers, asked.seed) else 0)


def _membench(lines: int, seed: int) -> int:
    """1 if a command line of membench is a fault, which is printed."""
    if shutil.which("cc") is None:
        print("membench: no cc, not fuzzed")
        return 0
    with tempfile.TemporaryDirectory() as place:
        status, said = options.run(options.build(Path(place)), lines, seed)
    print(f"membench: {said.strip()}", flush=True)
    return int(status != 0)


def _report(fuzzers: list[Fuzzer], seed: int) -> int:
    for each in fuzzers:
        print(f"{each.target.name}: {each.tried} inputs, {len(each.crashes)} crashes")
        for kind, text in each.crashes.items():
            print(f"  {kind}\n  ({each.target.name!r}, {text!r})"[:3000])
    crashes = sum(len(each.crashes) for each in fuzzers)
    tried = sum(each.tried for each in fuzzers)
    print(f"{tried} inputs of {len(fuzzers)} parsers, seed {seed}: {crashes} crashes")
    return crashes


if __name__ == "__main__":
    main()
