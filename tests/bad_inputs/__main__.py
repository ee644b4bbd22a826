"""Give nimc thousands of bad inputs; each must end in a few lines and a documented exit status."""

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bad_inputs.kinds import KINDS, Kind
from tests.commands import call
from tests.fuzz.mutate import damaged
from tests.fuzz.target import TooSlow, limited

#: Documented: done, the measurement says no, wrong input, a failure, no reader.
EXITS = (0, 1, 2, 3, 141)
#: A campaign has a line for each of its faults.
_MOST_LINES = 60
_LONGEST = 2000
#: Of processor time, and, for what waits, of time, seconds.
_CPU_S, _WAIT_S = 10.0, 120.0


@dataclass(frozen=True)
class Answer:
    status: int | None
    err: str
    out: str = ""


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


def answered(words: list[str], folder: Path) -> Answer:
    """What nimc answers in a folder; without a status if it takes too long."""
    try:
        with limited(_CPU_S, _WAIT_S, TooSlow()):
            status, out, err = call(words, folder, {"NIMC_REFRAME": "/bin/true"})
    except TooSlow:
        return Answer(None, "")
    return Answer(status, err, out)


def one(kind: Kind, rng: random.Random) -> tuple[Answer, list[str]]:
    """Give nimc one input; its answer, and what it was called with."""
    with tempfile.TemporaryDirectory() as name:
        words = kind.command(damaged(kind.seeds(), rng), Path(name))
        return answered(words, Path(name)), words


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bad_inputs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    asked = parser.parse_args()
    ended: dict[str, Counter[int | None]] = {}
    wrong = 0
    for index in range(asked.count):
        rng = random.Random(f"{asked.seed} {index}")
        kind = rng.choice(KINDS)
        answer, words = one(kind, rng)
        ended.setdefault(kind.name, Counter())[answer.status] += 1
        if said := list(faults(answer)):
            wrong += 1
            print(f"{index} {kind.name}: {'; '.join(said)}")
            print(f"  nimc {words!r}\n  {answer.err[-600:]!r}", flush=True)
    print(f"\n| bad input (seed {asked.seed}) | given | {' | '.join(map(str, EXITS))} |")
    print("|---" * (2 + len(EXITS)) + "|")
    for name, counted in sorted(ended.items()):
        cells = " | ".join(str(counted[status]) for status in EXITS)
        print(f"| {name} | {counted.total()} | {cells} |")
    print(f"\n{asked.count} inputs, {wrong} with a wrong answer")
    return int(wrong > 0)


if __name__ == "__main__":
    os.environ["NIMC_REFRAME"] = "/bin/true"
    sys.exit(main())
