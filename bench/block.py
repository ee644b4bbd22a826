"""The parts of a block's time, for both workloads of the campaign `quick` on this host.

python -m bench.block RUN...     prints the parts for existing runs
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from analysis.display.lines import aligned_table
from bench import BenchRow, row_with_lower_limit
from records.checkout import ROOT

#: Share of a block's time in which the application should run.
_LEAST_SHARE = 0.6


def run() -> list[BenchRow]:
    """Measure the parts of each block, and the application's share of the time of all blocks."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        blocks = parts_by_block(run_campaign("quick", Path(folder)))
    rows = [
        BenchRow(f"{block}: {name}", seconds, "s")
        for block, block_parts in blocks.items()
        for name, seconds in block_parts.items()
    ]
    total_s = sum(sum(block_parts.values()) for block_parts in blocks.values())
    share = sum(block_parts["applications"] for block_parts in blocks.values()) / total_s
    return [
        *rows,
        row_with_lower_limit("application's share of the blocks' time", share, "", _LEAST_SHARE),
    ]


def run_campaign(campaign: str, results: Path) -> Path:
    """Run a campaign on this host; return the run's folder."""
    main = "from nimc.cli.main import main; main()"
    arguments = ["run", campaign, "--machine", "localhost", "--results", str(results)]
    if status := subprocess.run([sys.executable, "-c", main, *arguments], cwd=ROOT).returncode:
        sys.exit(status)  # `nimc run` has printed the reason
    return (results / "latest").resolve()


def parts_by_block(run: Path) -> dict[str, dict[str, float]]:
    """Return the parts of each block of a finished run, in order of time.

    The keys are `CASE BLOCK`. The values are the names of the parts and their lengths, seconds.
    """
    return {
        f"{logs.parent.name} {logs.name}": _parts_of_block(run, logs)
        for logs in sorted((run / "logs").glob("*/[0-9]*"))
    }


def _parts_of_block(run: Path, logs: Path) -> dict[str, float]:
    session = _read_json(logs / "reframe.json")["session_info"]
    block = _read_json(logs / "block.json")
    samples = [
        json.loads(line)
        for line in (run / "samples" / f"{logs.parent.name}.jsonl").read_text().splitlines()
    ]
    block_samples = [sample for sample in samples if sample["block"] == int(logs.name)]
    first, last = block_samples[0], block_samples[-1]
    begin_s, end_s = first["start_s"], last["start_s"] + last["elapsed_s"]
    applications_s = sum(sample["elapsed_s"] for sample in block_samples)
    return {
        "ReFrame, before the conductor": block["started_s"] - session["time_start_unix"],
        "agents, start of writers, rates alone": begin_s - block["started_s"],
        "applications": applications_s,
        "between applications": end_s - begin_s - applications_s,
        "after the last application": block["finished_s"] - end_s,
        "ReFrame, after the conductor": session["time_end_unix"] - block["finished_s"],
    }


def _read_json(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def main() -> None:
    for run in map(Path, sys.argv[1:]):
        blocks = parts_by_block(run)
        first_block = next(iter(blocks.values()))  # all blocks have the same parts
        rows = [
            [name, *(f"{block_parts[name]:.1f}" for block_parts in blocks.values())]
            for name in first_block
        ]
        totals = [f"{sum(block_parts.values()):.1f}" for block_parts in blocks.values()]
        print(aligned_table([run.name, *blocks], [*rows, ["whole", *totals]]), end="\n\n")


if __name__ == "__main__":
    main()
