"""Runs all benchmarks, or those named on the command line, and prints their figures."""

import importlib
import pkgutil
import sys
from pathlib import Path

from nimc.base.tables import aligned
from tests.bench import BenchRow

#: A line for each figure, in logs of CI too.
_WIDTH = 160
_VERDICT = {True: "met", False: "MISSED", None: ""}


def main() -> int:
    """Exit code 1 where an aim was missed."""
    names = sys.argv[1:] or sorted(
        module.name
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        if not module.name.startswith("_")
    )
    rows: list[BenchRow] = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += importlib.import_module(f"tests.bench.{name}").run()
    cells = [
        [row.name, f"{row.value:.4g} {row.unit}", row.aim, _VERDICT[row.ok], row.command]
        for row in rows
    ]
    print(aligned(["benchmark", "figure", "aim", "", "command"], cells, width=_WIDTH))
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
