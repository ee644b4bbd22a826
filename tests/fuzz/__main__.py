"""Fuzz membench's command line, then all parsers in turn until the time is up: `make fuzz`.

Hypothesis shrinks an input that crashes a parser, and prints it; the exit status is then 1.
"""

import argparse
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz import options
from tests.fuzz.mutate import inputs
from tests.fuzz.table import TARGETS
from tests.fuzz.target import Target, check

#: Inputs for one parser before it is the next one's turn.
_TURN = 1000
#: Command lines of membench for each second of all fuzzing: about a hundredth of the time.
_LINES_1_S = 1000
#: An input that fills the memory crashes the fuzzer, not the machine, bytes.
_MEMORY_B = 12 << 30


def crashes(target: Target, number: int) -> bool:
    """Whether one of `_TURN` inputs, drawn from this seed, crashes a parser."""
    with tempfile.TemporaryDirectory() as folder:

        @settings(
            max_examples=_TURN,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @seed(number)
        @given(inputs(target.seeds))
        def holds(text: bytes) -> None:
            check(target, text, Path(folder))

        try:
            holds()
        except Exception:
            print(f"{target.name}:\n{traceback.format_exc()[-3000:]}", flush=True)
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("names", nargs="*", help="parsers (all)")
    asked = parser.parse_args()
    until_s = time.monotonic() + asked.seconds
    wrong = 0
    if not asked.names and shutil.which("cc"):
        with tempfile.TemporaryDirectory() as place:
            lines = int(asked.seconds * _LINES_1_S)
            status, said = options.run(options.build(Path(place)), lines, asked.seed)
        print(f"membench: {said.strip()}", flush=True)
        wrong += int(status != 0)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_B, _MEMORY_B))
    rng = random.Random(asked.seed)
    turns = 0
    while time.monotonic() < until_s:
        for name in asked.names or TARGETS:
            wrong += crashes(TARGETS[name], rng.getrandbits(32))
            turns += 1
    print(f"{_TURN * turns} inputs, seed {asked.seed}: {wrong} crashes")
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main()
