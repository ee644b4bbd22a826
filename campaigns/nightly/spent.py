"""What a night has added to the run of its campaign: samples, and node-hours used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaigns.planning.plan import Plan
from campaigns.planning.prepare import Request
from campaigns.running.folder import find_latest
from campaigns.running.header import new_header


@dataclass
class NightRuns:
    """The run that a night resumes or begins."""

    results: Path
    digest: str
    #: Case -> nodes of a block.
    nodes: Mapping[str, int]
    #: When the night began.
    since_s: float
    #: When the latest run began; None if it is finished, or there is none.
    unfinished_s: float | None
    #: The run that has samples of the night.
    found: Path | None = None

    @classmethod
    def of(cls, results: Path, asked: Request, planned: Plan, since_s: float) -> NightRuns:
        """Look for the latest run of the campaign on this machine."""
        digest = new_header(asked).digest
        nodes = {case.case: case.nodes for case in planned.cases}
        latest = find_latest(results, digest)
        if latest is None:
            return cls(results, digest, nodes, since_s, None)
        header = latest[1]
        unfinished_s = header.started_s if header.finished_s is None else None
        return cls(results, digest, nodes, since_s, unfinished_s)

    def current(self) -> Path | None:
        """The run that has samples of the night; headers are read only until there is one."""
        if self.found is None:
            latest = find_latest(self.results, self.digest)
            if latest and new_samples(latest[0], self.since_s):
                self.found = latest[0]
        return self.found

    def used_node_h(self) -> float:
        """Node-hours of the night so far."""
        run = self.current()
        return node_hours(run, self.nodes, self.since_s) if run else 0.0

    def new_samples(self) -> int:
        """Samples of the night so far."""
        run = self.current()
        return new_samples(run, self.since_s) if run else 0


def node_hours(run: Path, nodes: Mapping[str, int], since_s: float) -> float:
    """Node-hours of all blocks that have begun since a moment; `nodes`: case -> of a block.

    A finished block counts from the conductor's start to its end; any other one from the start of
    its first sample to the end of its last. Waiting in the queue costs nothing.
    """
    used_s = 0.0
    for case, count in nodes.items():
        for start_s, end_s in _blocks(run, case):
            if start_s >= since_s:
                used_s += count * max(end_s - start_s, 0.0)
    return used_s / 3600


def new_samples(run: Path, since_s: float) -> int:
    """Samples of a run that have started since a moment."""
    files = (run / "samples").glob("*.jsonl")
    return sum(start_s >= since_s for file in files for _, start_s, _ in _samples(file))


def _blocks(run: Path, case: str) -> Iterator[tuple[float, float]]:
    """Start and end of each block of a case."""
    unfinished: dict[str, tuple[float, float]] = {}
    for block, start_s, end_s in _samples(run / "samples" / f"{case}.jsonl"):
        first, last = unfinished.get(block, (start_s, end_s))
        unfinished[block] = min(first, start_s), max(last, end_s)
    for file in (run / "logs" / case).glob("*/block.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(file.read_text(encoding="utf-8"))
            times = float(record["started_s"]), float(record["finished_s"])
            unfinished[file.parent.name] = times
    yield from unfinished.values()


def _samples(file: Path) -> Iterator[tuple[str, float, float]]:
    """Block, start and end of each whole sample."""
    with suppress(OSError):
        for line in file.read_bytes().splitlines():
            with suppress(ValueError, KeyError, TypeError):
                sample: Mapping[str, Any] = json.loads(line)
                start_s = float(sample["start_s"])
                yield str(sample["block"]), start_s, start_s + float(sample["elapsed_s"] or 0.0)
