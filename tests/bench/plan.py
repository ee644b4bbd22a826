"""How long planning takes: 10,000 cases, from the file to the commands."""

import tempfile
import time
from pathlib import Path
from typing import Any

from nimc.campaign.prepare import prepare
from tests.bench import BenchRow

_CASES = 10_000
_MOST_S = 2.0
_COMMAND = "python -m tests.bench plan"


def write(file: Path, cases: int) -> Path:
    """A campaign of so many cases."""
    lines = (
        f"  - check: stream\n    case: c{i}\n    set: {{iterations: {i}}}\n"
        for i in range(1, cases + 1)
    )
    file.write_text(f"name: big\narms: [off, on]\nworkloads:\n{''.join(lines)}")
    return file


def planned(file: Path) -> dict[str, Any]:
    """What `nimc plan --json` prints of a campaign."""
    asked = prepare(file, "localhost")
    return asked.plan().as_dict()


def run() -> list[BenchRow]:
    """Reads, checks and plans a campaign of 10,000 cases."""
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "big.yaml", _CASES)
        started_s = time.perf_counter()
        found = planned(file)
        taken_s = time.perf_counter() - started_s
    assert len(found["cases"]) == _CASES
    name = f"nimc plan, {_CASES:,} cases"
    return [BenchRow(name, taken_s, "s", f"under {_MOST_S:g} s", taken_s < _MOST_S, _COMMAND)]
