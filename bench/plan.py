"""Measures the time to plan 10,000 cases, from reading the file to the output of `nimc plan`."""

import io
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

from bench import BenchRow, cost_of, row_with_upper_limit
from nimc.cli.plan import plan_command

_CASES = 10_000
_MAX_S = 2.0


def write(file: Path, cases: int) -> Path:
    """Write a campaign with a number of cases; return its file."""
    lines = (
        f"  - check: stream\n    case: c{i}\n    set: {{iterations: {i}}}\n"
        for i in range(1, cases + 1)
    )
    file.write_text(f"name: big\narms: [off, on]\nworkloads:\n{''.join(lines)}")
    return file


def plan_json(file: Path) -> str:
    """Return what `nimc plan --json` prints for a campaign."""
    with redirect_stdout(io.StringIO()) as printed:
        plan_command.main([str(file), "--machine", "localhost", "--json"], standalone_mode=False)
    return printed.getvalue()


def run() -> list[BenchRow]:
    """Measure the time to read, check and plan a campaign of 10,000 cases."""
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "big.yaml", _CASES)
        cost = cost_of(lambda: plan_json(file))
    return [row_with_upper_limit(f"nimc plan, {_CASES:,} cases", cost.wall_s, "s", _MAX_S)]
