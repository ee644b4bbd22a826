"""How long planning takes: 10,000 cases, from the file to the commands."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from campaigns.planning.plan import plan
from campaigns.planning.prepare import prepare
from tests.bench import BenchRow

_CASES = 10_000
_COMMAND = "python -m tests.bench plan"


def run() -> list[BenchRow]:
    """Reads, checks and plans a campaign of 10,000 cases."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "big.yaml"
        cases = (
            f"  - check: stream\n    case: c{i}\n    set: {{iterations: {i + 1}}}\n"
            for i in range(_CASES)
        )
        file.write_text(f"name: big\narms: [off, on]\nworkloads:\n{''.join(cases)}")
        started_s = time.perf_counter()
        asked = prepare(file, "localhost")
        planned = plan(asked.campaign, asked.site).as_dict()
        taken_s = time.perf_counter() - started_s
    assert len(planned["cases"]) == _CASES
    return [
        BenchRow(f"nimc plan, {_CASES:,} cases", taken_s, "s", "under 10 s", taken_s < 10, _COMMAND)
    ]
