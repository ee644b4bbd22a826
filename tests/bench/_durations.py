"""Planned against measured time of runs of this checkout's campaigns; at most 25 % apart.

    python -m tests.bench._durations RESULTS/RUN...

Of every block that ended: what the plan expects of as many pairs, without earlier runs, against the
time that ReFrame took, on a machine without a queue. Exit code 1 if a run is further off.
"""

import json
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from nimc.campaign.plan import block_s
from nimc.campaign.prepare import prepare
from records.plan import BlockPlan
from records.run import load_header
from records.text import aligned

_MOST = 0.25


def of_run(run: Path) -> tuple[float, float]:
    """Planned and measured seconds of all blocks that ended."""
    header = load_header(run)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(header.campaign_text)
        file.flush()
        request = prepare(Path(file.name), header.machine)
    planned_s = measured_s = 0.0
    for case in request.campaign.cases:
        for logs in sorted((run / "logs" / case.name).glob("[0-9]*")):
            with suppress(OSError, KeyError):
                session = json.loads((logs / "reframe.json").read_text())["session_info"]
                pairs = BlockPlan.load(logs / "plan.json").pairs
                planned_s += block_s(request, case, request.treatments[case.name], pairs)
                measured_s += session["time_end_unix"] - session["time_start_unix"]
    return planned_s, measured_s


def main() -> int:
    """Print a line for each run."""
    off, rows = [], []
    for run in map(Path, sys.argv[1:]):
        planned_s, measured_s = of_run(run)
        off.append(abs(planned_s / measured_s - 1) if measured_s else 0.0)
        rows.append([run.name, f"{planned_s:.0f} s", f"{measured_s:.0f} s", f"{off[-1]:.0%}"])
    print(aligned(["run", "planned", "measured", "apart"], rows))
    return int(max(off, default=0.0) > _MOST)


if __name__ == "__main__":
    sys.exit(main())
