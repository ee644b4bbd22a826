"""Give nimc thousands of bad inputs; each must end in a few lines and a documented exit status."""

import argparse
import contextlib
import io
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from nimc.cli import main as cli
from tests.bad_inputs.kinds import KINDS, Kind
from tests.fuzz.mutate import inputs
from tests.fuzz.target import limited

#: Documented: done, the measurement says no, wrong input, a failure, no reader.
EXITS = (0, 1, 2, 3, 141)
#: A campaign has a line for each of its faults.
_MOST_LINES = 60
_LONGEST = 2000
#: Of processor time, and, for what waits, of time, seconds.
_CPU_S = 10.0
_WAIT_S = 120.0


@dataclass(frozen=True)
class Answer:
    status: int | None
    err: str
    out: str = ""


class Late(BaseException):
    """The command took too long; no handler of exceptions stops it."""


def faults(answer: Answer) -> Iterator[str]:
    if answer.status is None:
        yield f"takes more than {_CPU_S:g} s"
    elif answer.status not in EXITS:
        yield f"exit {answer.status}"
    lines = answer.err.splitlines()
    if answer.status in (2, 3) and not lines and not answer.out:  # a state may be asked for
        yield f"exit {answer.status} without a line"
    if len(lines) > _MOST_LINES or any(len(line) > _LONGEST for line in lines):
        yield f"{len(lines)} lines, the longest of {max(map(len, lines))} characters"
    yield from (f"says {word!r}" for word in ("Traceback", "unexpectedly") if word in answer.err)
    if not all(line.isprintable() for line in answer.err.split("\n")):
        yield "says something unprintable"


def make(kind: Kind, rng: random.Random) -> bytes:
    """A damaged text."""
    made: list[bytes] = []

    @settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(inputs(kind.seeds()))
    def keep(text: bytes) -> None:
        made.append(text)

    while not made:
        keep.hypothesis.fuzz_one_input(rng.randbytes(1024))
    return made[-1]


def here(words: list[str]) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    status: int | None = 0
    sys.argv = ["nimc", *words]
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        limited(_CPU_S, _WAIT_S, Late()),
    ):
        try:
            cli.main()
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
        except Late:
            status = None
    return Answer(status, err.getvalue(), out.getvalue())


def one(kind: Kind, rng: random.Random) -> tuple[Answer, list[str]]:
    """Give nimc one input; its answer, and what it was called with."""
    folder = Path(tempfile.mkdtemp())
    before = Path.cwd()
    os.chdir(folder)
    try:
        words = kind.command(make(kind, rng), folder)
        return here(words), words
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bad_inputs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    os.environ["NIMC_REFRAME"] = "/bin/true"
    ended: dict[str, Counter[str]] = {}
    wrong = 0
    for index in range(asked.first, asked.first + asked.count):
        rng = random.Random(f"{asked.seed} {index}")
        kind = rng.choice(KINDS)
        answer, words = one(kind, rng)
        ended.setdefault(kind.name, Counter())[str(answer.status)] += 1
        found = list(faults(answer))
        wrong += bool(found)
        if found:
            print(f"{index} {kind.name}: {'; '.join(found)}")
            print(f"  nimc {words!r}\n  {answer.err[-600:]!r}", flush=True)
    print(f"\n| bad input (seed {asked.seed}) | given | {' | '.join(map(str, EXITS))} |")
    print("|---" * (2 + len(EXITS)) + "|")
    for name, counted in sorted(ended.items()):
        cells = " | ".join(str(counted[str(status)]) for status in EXITS)
        print(f"| {name} | {counted.total()} | {cells} |")
    print(f"\n{asked.count} inputs, {wrong} with a wrong answer")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
