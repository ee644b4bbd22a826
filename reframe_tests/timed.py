"""Runs a command repeatedly, and prints a line with its figure after each repetition.

    python -m reframe_tests.timed REPETITIONS PATTERN WHICH BETTER UNIT PROGRAM ARG...

The figure is the time that the command took. With a pattern, it is a number in the output: WHICH is
the `last` match or the `worst`. The command gets the job's environment without the additions for
this project's own programs (`environment_of_user`). This module uses the standard library only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence

from records.checkout import environment_of_user
from reframe_tests.workload import number

#: Start of the line after a repetition. It continues with the repetition as `1/3`, BETTER, UNIT,
#: WHICH, the number of matches, and the figure.
MARK = "nimc measured:"
#: Exit status if a command cannot be started, as in a shell.
_NOT_STARTED = 127


def main() -> None:
    """Run all repetitions; exits with the status of the first repetition that fails."""
    repetitions, pattern, which, better, unit, *command = sys.argv[1:]
    environment = environment_of_user(os.environ)
    os.environ.clear()
    os.environ.update(environment)  # the program is searched for on this PATH
    for repetition in range(1, int(repetitions) + 1):
        match_count, figure = _run_once(
            command, pattern, worst=which == "worst", higher_is_better=better == "higher"
        )
        progress = f"{repetition}/{repetitions}"
        print(f"\n{MARK} {progress} {better} {unit} {which} {match_count} {figure}", flush=True)


def _run_once(
    command: Sequence[str], pattern: str, *, worst: bool, higher_is_better: bool
) -> tuple[int, str]:
    """Run the command once; return the number of matches, and the figure."""
    start_s = time.perf_counter()
    try:
        stdout = subprocess.PIPE if pattern else None
        completed = subprocess.run(command, stdout=stdout, cwd=os.getcwd(), check=False)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(_NOT_STARTED)
    took_s = time.perf_counter() - start_s
    if pattern:
        sys.stdout.buffer.write(completed.stdout)
        sys.stdout.buffer.flush()
    if completed.returncode:
        sys.exit(completed.returncode if completed.returncode > 0 else 128 - completed.returncode)
    if not pattern:
        return 0, f"{took_s:.9f}"
    matches = matches_of(pattern, completed.stdout.decode(errors="replace"))
    if not matches:
        return 0, ""
    figure = _worst(matches, higher_is_better=higher_is_better) if worst else matches[-1]
    return len(matches), figure


def matches_of(pattern: str, text: str) -> list[str]:
    """Return the matches in an output: of the pattern's first group, or of the whole pattern."""
    compiled = re.compile(pattern, re.MULTILINE)
    group = 1 if compiled.groups else 0
    return [match[group] or "" for match in compiled.finditer(text)]


def _worst(matches: Sequence[str], *, higher_is_better: bool) -> str:
    """Return the worst number, or the first match that is no number.

    The check that reads the printed line rejects a match that is no number.
    """
    numbers = []
    for match in matches:
        try:
            numbers.append(number(match))
        except ValueError:
            return match
    worst = min(numbers) if higher_is_better else max(numbers)
    return matches[numbers.index(worst)]


if __name__ == "__main__":
    main()
