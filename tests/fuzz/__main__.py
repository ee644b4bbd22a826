"""Fuzz all parsers in turn until the time is up: `make fuzz`.

An input that crashes a parser is printed, as short as it becomes; the exit status is then 1.
"""

import argparse
import itertools
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.fuzz.mutate import inputs
from tests.fuzz.parsers import TARGETS
from tests.fuzz.target import Target, TooSlow, check

#: Inputs for one parser before it is the next one's turn.
_TURN = 1000
#: An input that fills the memory crashes the fuzzer, not the machine, bytes.
_MEMORY_B = 12 << 30


def crash(target: Target, text: bytes) -> str | None:
    """What an input does to a parser; None if it is read or refused."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(target, text, Path(folder))
        except (Exception, TooSlow):
            return traceback.format_exc()[-3000:]
    return None


def shortened(target: Target, text: bytes) -> bytes:
    """The input without the parts that it does not take to crash the parser."""
    size = len(text) // 2
    while size:
        at = 0
        while at < len(text):
            shorter = text[:at] + text[at + size :]
            text, at = (shorter, at) if crash(target, shorter) else (text, at + size)
        size //= 2
    return text


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("names", nargs="*", help="parsers (all)")
    asked = parser.parse_args()
    if unknown := set(asked.names).difference(TARGETS):
        parser.error(f"{', '.join(unknown)}: no such parser; allowed: {', '.join(TARGETS)}")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_B, _MEMORY_B))
    until_s, tried, wrong = time.monotonic() + asked.seconds, 0, 0
    for turn in itertools.count():
        for name in asked.names or TARGETS:
            target = TARGETS[name]
            for text in inputs(f"{asked.seed} {name}", target.seeds, _TURN, turn * _TURN):
                tried += 1
                if said := crash(target, text):
                    wrong += 1
                    print(f"{name}: {shortened(target, text)!r}\n{said}", flush=True)
            if time.monotonic() > until_s:
                print(f"{tried} inputs, seed {asked.seed}: {wrong} crashes")
                sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main()
