"""Runs all benchmarks, or the topics named on the command line, and prints their figures.

The words after the topic `durations` name campaigns. Exit codes: 0 done, 1 an aim was missed,
2 no such topic.
"""

import gc
import importlib
import pkgutil
import sys
from pathlib import Path

from analysis.display.lines import aligned_table

#: Width of a line, characters. Each figure is on one line, even in logs of CI, which are no
#: terminals.
_WIDTH = 160
_VERDICT = {True: "met", False: "MISSED", None: ""}


def main() -> int:
    """Run the topics and print their rows; return the exit code."""
    gc.set_threshold(100_000, 20)  # as `nimc.cli.main` does
    names = sys.argv[1:]
    arguments: list[str] = []
    if names[:1] == ["durations"]:
        names, arguments = names[:1], names[1:]
    topics = sorted(
        module.name
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        # Packages are not topics. They contain code that topics share.
        if not module.ispkg and module.name != "__main__"
    )
    if unknown := sorted(set(names).difference(topics)):
        allowed = ", ".join(topics)
        print(f"{', '.join(unknown)}: no such topic; allowed: {allowed}", file=sys.stderr)
        return 2
    missed = False
    for name in names or topics:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows = importlib.import_module(f"bench.{name}").run(*arguments)
        cells = [
            [row.name, f"{row.value:.4g} {row.unit}", row.aim, _VERDICT[row.aim_met]]
            for row in rows
        ]
        print(aligned_table([name, "figure", "aim", ""], cells, {0}, _WIDTH), flush=True)
        missed |= any(row.aim_met is False for row in rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
