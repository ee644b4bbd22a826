"""Give damaged inputs to parsers (`make fuzz`) or to commands of nimc (docs/reliability.md).

Each input must be read, or refused as documented, within a time limit. An input for which this
fails is shortened and printed.
"""

import random
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests import trials
from tests.fuzz import nimc_commands, parsers
from tests.fuzz.mutate import damaged
from tests.fuzz.target import Target, TooSlow, check
from tests.trials import FAILED, Outcome

TABLES = {"parsers": parsers.TARGETS, "commands": nimc_commands.TARGETS}
#: Limit of the fuzzer's memory, bytes. An input that fills this memory crashes only the fuzzer, not
#: the machine.
_MEMORY_B = 12 << 30
#: Time limit for shortening an input that fails, seconds.
_SHORTENED_S = 60.0


def outcome(target: Target, text: bytes) -> Outcome:
    """Give an input to a parser or a command, and return the outcome."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return Outcome("read" if check(target, text, Path(folder)) else "refused")
        except (Exception, TooSlow):
            return Outcome(FAILED, [traceback.format_exc()[-3000:]])


def shortened(target: Target, text: bytes) -> bytes:
    """Return the input without parts that can be removed while it still fails.

    Shortening ends after `_SHORTENED_S`.
    """
    until_s = time.monotonic() + _SHORTENED_S
    size = len(text) // 2
    while size:
        start = 0
        while start < len(text) and time.monotonic() < until_s:
            shorter = text[:start] + text[start + size :]
            wrong = outcome(target, shorter).wrong
            text, start = (shorter, start) if wrong else (text, start + size)
        size //= 2
    return text


def _trial(target: Target, rng: random.Random, _: int) -> Outcome:
    text = damaged(target.valid(), rng)
    result = outcome(target, text)
    if not result.wrong:
        return result
    short = shortened(target, text)
    return Outcome(FAILED, [repr(short), *(outcome(target, short).wrong or result.wrong)])


def main() -> int:
    parser = trials.arguments("python -m tests.fuzz", __doc__)
    parser.add_argument("table", choices=TABLES, nargs="?", default="parsers")
    options = parser.parse_args()
    rows = trials.select_rows([*TABLES[options.table].values()], options.only)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_B, _MEMORY_B))
    return trials.run(rows, _trial, kinds=("read", "refused"), options=options)


if __name__ == "__main__":
    sys.exit(main())
