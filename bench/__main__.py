"""Runs all benchmarks, or those named on the command line, and prints their figures.

`durations` is followed by campaigns. Exit codes: 0 done, 1 an aim was missed, 2 no such topic.
"""

import gc
import importlib
import pkgutil
import sys
from pathlib import Path

from analysis.display.lines import aligned_table

#: A line for each figure, in logs of CI too.
_WIDTH = 160
_VERDICT = {True: "met", False: "MISSED", None: ""}


def main() -> int:
    gc.set_threshold(100_000, 20)  # as `nimc.cli.main` does
    names, arguments = sys.argv[1:], list[str]()
    if names[:1] == ["durations"]:
        names, arguments = names[:1], names[1:]
    topics = sorted(
        module.name
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        if not module.ispkg and module.name != "__main__"  # packages are what topics share
    )
    if unknown := set(names).difference(topics):
        named = ", ".join(sorted(unknown))
        print(f"{named}: no such topic; allowed: {', '.join(topics)}", file=sys.stderr)
        return 2
    missed = False
    for name in names or topics:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows = importlib.import_module(f"bench.{name}").run(*arguments)
        cells = [
            [row.name, f"{row.value:.4g} {row.unit}", row.aim, _VERDICT[row.ok]] for row in rows
        ]
        print(aligned_table([name, "figure", "aim", ""], cells, {0}, _WIDTH), flush=True)
        missed |= any(row.ok is False for row in rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
