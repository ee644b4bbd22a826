"""One run of a campaign per node, a few at once: each is `nimc run --nodelist NODE`.

RESULTS/CAMPAIGN-MACHINE-nodes-STARTED/
    sweep.json       what is swept, and whether it has ended
    NODE/            results folder of the node's run
    NODE.log         what `nimc run` printed

A stopped sweep continues with the nodes that are missing. One process runs it at a time.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nimc.run.session import NIMC, start, stop
from records.checkout import ROOT
from records.files import replace_text, require_own
from records.interrupts import Interrupts
from records.json_limits import read_json, validated
from records.programs import last_line
from records.run import PlainName, load_header

_FILE = "sweep.json"
_TICK_S = 1.0


@dataclass(frozen=True)
class NodeSweep:
    """What is swept; `sweep.json`."""

    campaign: PlainName
    machine: PlainName
    #: Of the campaign and machine (`header.digest`).
    digest: str
    nodes: list[PlainName]
    started_s: float
    #: None while nodes are missing.
    finished_s: float | None = None
    schema: int = 1


def open_sweep(
    results: Path, requested: NodeSweep, among: Collection[str], *, fresh: bool
) -> tuple[Path, NodeSweep]:
    """The latest sweep of the same campaign and machine if it can be resumed, else a new one.

    It is resumed if it is unfinished and all its nodes are `among` those that may be swept; nodes
    that are requested and that it lacks are added.
    """
    named = f"{requested.campaign}-{requested.machine}-nodes"
    found = [] if fresh else sorted(results.glob(f"{named}-*/{_FILE}"))
    for path in found[-1:]:
        for own in (path.parent, path):
            require_own(own, "sweep", team="writes")
        known = validated(NodeSweep, read_json(path), path)
        unfinished = known.digest == requested.digest and known.finished_s is None
        if unfinished and set(known.nodes) <= set(among):
            new = [node for node in requested.nodes if node not in known.nodes]
            return path.parent, replace(known, nodes=[*known.nodes, *new])
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(requested.started_s))
    folder = results / f"{named}-{stamp}"
    folder.mkdir(parents=True)
    save_sweep(folder, requested)
    return folder, requested


def save_sweep(folder: Path, sweep: NodeSweep) -> None:
    """Replace `sweep.json`."""
    replace_text(folder / _FILE, json.dumps(asdict(sweep), indent=1) + "\n")


def finished_run(folder: Path, node: str) -> Path | None:
    """The finished run of a node."""
    for path in sorted((folder / node).glob("*/run.json")):
        if load_header(path.parent).finished_s is not None:
            return path.parent
    return None


@dataclass
class NodeSweeper:
    """Runs what is missing of a sweep, with at most `jobs` allocations queued or running."""

    folder: Path
    sweep: NodeSweep
    campaign_file: Path
    jobs: int
    interrupts: Interrupts
    tell: Callable[[str], None]
    #: Whether a node's log has a line for every run, and where it is, is said.
    verbose: bool = False

    def run_all(self) -> dict[str, str]:
        """Node -> why it was not measured. Raises Stopped on a signal; no `nimc run` is left."""
        left = [node for node in self.sweep.nodes if not finished_run(self.folder, node)]
        running: dict[str, subprocess.Popen[bytes]] = {}
        failed: dict[str, str] = {}
        try:
            while left or running:
                while left and len(running) < self.jobs:
                    node = left.pop(0)
                    running[node] = self._start(node)
                self.interrupts.wait(_TICK_S)
                self.interrupts.check()
                for node, child in list(running.items()):
                    if child.poll() is not None:
                        del running[node]
                        failed |= self._ended(node, child.returncode)
        finally:
            stop(running.values())
        self.interrupts.check()
        return failed

    def _start(self, node: str) -> subprocess.Popen[bytes]:
        self.tell(f"{node}: starts" + (f"; log {self.folder / node}.log" if self.verbose else ""))
        words = ["run", str(self.campaign_file.absolute()), "--machine", self.sweep.machine]
        words += ["--results", str(self.folder.absolute() / node), "--nodelist", node]
        words += ["--verbose"] if self.verbose else []
        with (self.folder / f"{node}.log").open("ab") as log:
            return start([*NIMC, *words], log, cwd=ROOT)

    def _ended(self, node: str, status: int) -> dict[str, str]:
        if finished_run(self.folder, node):
            self.tell(f"{node}: done")
            return {}
        log = self.folder / f"{node}.log"
        last = last_line(log.read_text(errors="replace"))
        self.tell(f"{node}: failed: {last}")
        return {node: f"exit status {status}: {last.removeprefix('nimc: ')}"}
