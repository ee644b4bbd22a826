"""One run of a campaign per node, a few at once: each is `nimc run --nodelist NODE`.

RESULTS/CAMPAIGN-MACHINE-nodes-STARTED/
    NODE/            results folder of the node's run
    NODE.log         what `nimc run` printed

A stopped sweep continues with the nodes that have no finished run. One process runs it at a time.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nimc.run.session import NIMC, start, stop
from records.checkout import ROOT
from records.files import require_own
from records.interrupts import Interrupts
from records.programs import last_line
from records.run import load_header

_TICK_S = 1.0


def sweep_folder(
    results: Path, name: str, text: str, nodes: Sequence[str], *, fresh: bool = False
) -> Path:
    """The latest sweep of that name if a node lacks a finished run in it, else a new one.

    `text`: of the campaign, since other campaigns may have had the name.
    """
    for folder in [] if fresh else sorted(results.glob(f"{name}-nodes-*"))[-1:]:
        require_own(folder, "sweep")
        if not all(finished_run(folder, node, text) for node in nodes):
            return folder
    folder = results / f"{name}-nodes-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def finished_run(folder: Path, node: str, text: str) -> Path | None:
    """The finished run of a node, of the campaign with that text."""
    for path in sorted((folder / node).glob("*/run.json")):
        header = load_header(path.parent)
        if header.finished_s is not None and header.campaign_text == text:
            return path.parent
    return None


@dataclass
class NodeSweeper:
    """Runs what is missing of a sweep, with at most `jobs` allocations queued or running."""

    folder: Path
    nodes: Sequence[str]
    machine: str
    campaign_file: Path
    #: The campaign's text.
    text: str
    jobs: int
    interrupts: Interrupts
    tell: Callable[[str], None]
    #: Whether a node's log has a line for every run, and where it is, is said.
    verbose: bool = False

    def run_all(self) -> dict[str, str]:
        """Node -> why it was not measured. Raises Stopped on a signal; no `nimc run` is left."""
        left = [node for node in self.nodes if not self.finished_run(node)]
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

    def finished_run(self, node: str) -> Path | None:
        """The finished run of a node in this sweep."""
        return finished_run(self.folder, node, self.text)

    def _start(self, node: str) -> subprocess.Popen[bytes]:
        self.tell(f"{node}: starts" + (f"; log {self.folder / node}.log" if self.verbose else ""))
        words = ["run", str(self.campaign_file.absolute()), "--machine", self.machine]
        words += ["--results", str(self.folder.absolute() / node), "--nodelist", node]
        words += ["--verbose"] if self.verbose else []
        with (self.folder / f"{node}.log").open("ab") as log:
            return start([*NIMC, *words], log, cwd=ROOT)

    def _ended(self, node: str, status: int) -> dict[str, str]:
        if self.finished_run(node):
            self.tell(f"{node}: done")
            return {}
        log = self.folder / f"{node}.log"
        last = last_line(log.read_text(errors="replace"))
        self.tell(f"{node}: failed: {last}")
        return {node: f"exit status {status}: {last.removeprefix('nimc: ')}"}
