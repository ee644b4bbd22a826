"""The runs of a night: which one it continues, its limits, what it used, and repeats of cases.

Each run is `nimc run` as a child of the night. A repeat confirms the alarms that the night's run
raised: its cases, with allocations of their own, on the nodes of that run. What repeats show says
`analysis.history.alarms`. A night that was killed meanwhile and started again resumes its last
repeat, and runs those that are missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Any

from analysis.history.alarms import REPEATS, Alarm
from analysis.history.store import add_run
from analysis.history.tables import NIGHT_S
from nimc.base.checkout import ROOT, python_path
from nimc.base.errors import InputError, MachineError
from nimc.base.groups import grouped
from nimc.base.interrupts import Interrupts
from nimc.base.programs import last_line
from nimc.campaign.plan import Plan, Request
from nimc.campaign.prepare import prepare
from nimc.nights.description import Nightly
from nimc.records.run import RunHeader, load_header
from nimc.run.folder import find_latest, new_header, own_runs
from nimc.run.session import NIMC, start, stop

#: How often the limits are looked at, seconds.
_LOOK_S = 5.0

#: Variables of a Slurm job, and one of them that the site sets.
_OF_JOB = ("SLURM_", "SLURMD_", "SBATCH_")
_OF_SITE = ("SLURM_CONF",)


@dataclass(frozen=True)
class EndedRun:
    """How `nimc run` ended."""

    status: int
    #: Its JSON document; empty if it printed none.
    document: dict[str, Any] = field(default_factory=dict)
    #: Its last line.
    said: str = ""
    #: Why it was stopped; None if it ended by itself.
    stopped: str | None = None

    @property
    def concluded(self) -> Path | None:
        """The run that it completed; the samples may be those of a night that was killed."""
        whole = self.status in (0, 1) and self.document.get("results")
        return Path(self.document["run"]) if whole else None


def environment() -> dict[str, str]:
    """The environment in which `NIMC` finds this checkout.

    The night may be a Slurm job itself; the jobs that it submits do not inherit its variables.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _OF_SITE or not name.startswith(_OF_JOB)
    }
    return {**kept, "PYTHONPATH": python_path(ROOT)}


def _attend(
    child: subprocess.Popen[bytes], interrupts: Interrupts, limit: Callable[[], str | None]
) -> str | None:
    """Wait for the child, or stop it when `limit` says why; returns why."""
    stopped = None
    while child.poll() is None and stopped is None:
        interrupts.wait(_LOOK_S)
        stopped = "stopped by a signal" if interrupts.signum is not None else limit()
    if child.poll() is None:
        stop([child])
        return stopped
    return None


# The runs of a night: which one it continues, and the samples and node-hours of the night.


@dataclass
class NightRuns:
    """The run that a night resumes or begins, and all others of the campaign in this night.

    It is read from the runs' folders, so a night that was killed and started again counts all that
    it has used.
    """

    results: Path
    digest: str
    #: Case -> nodes of a block.
    nodes: Mapping[str, int]
    #: When the night began.
    since_s: float
    #: When the latest run began; None if it is finished or repeats one, or if there is none.
    unfinished_s: float | None
    #: The first run that was finished in the night: what a night that was killed had measured.
    measured: Path | None
    #: Runs of the campaign, and of some of its cases, that use node-hours of the night.
    used: set[Path]
    #: The run that has samples of the night.
    found: Path | None = None

    @classmethod
    def of(cls, results: Path, request: Request, planned: Plan, since_s: float) -> NightRuns:
        """Look for runs of the campaign on this machine."""
        new = new_header(request)
        nodes = {case.case: case.nodes for case in planned.cases}
        runs = runs_of(results, new)
        same = [(path, each) for path, each in runs if each.digest == new.digest]
        ended = (path for path, each in same if (each.finished_s or 0.0) >= since_s)
        used = {path for path, each in runs if (each.finished_s or since_s) >= since_s}
        unfinished_s = _unfinished_s([each for _, each in same], since_s)
        return cls(results, new.digest, nodes, since_s, unfinished_s, next(ended, None), used)

    def current(self) -> Path | None:
        """The run that has samples of the night; headers are read only until there is one."""
        if self.found is None:
            latest = find_latest(self.results, self.digest)
            if latest and new_samples(latest[0], self.since_s):
                self.found = latest[0]
                self.used.add(self.found)
        return self.found

    def used_node_h(self) -> float:
        """Node-hours of the night so far."""
        self.current()
        return fsum(node_hours(run, self.nodes, self.since_s) for run in self.used)

    def new_samples(self) -> int:
        """Samples of the night so far, without those of repeats."""
        run = self.current()
        return new_samples(run, self.since_s) if run else 0


def runs_of(results: Path, new: RunHeader) -> Sequence[tuple[Path, RunHeader]]:
    """All runs of a campaign on a machine, also of some of its cases, in order of their start."""
    requested = (new.campaign, new.machine)
    found = (
        (path, each)
        for path, each in own_runs(results)
        if (each.campaign, each.machine) == requested and each.reproduces is None
    )
    return sorted(found, key=lambda run: run[1].started_s)


def _unfinished_s(same: Sequence[RunHeader], since_s: float) -> float | None:
    """When the last of these runs began, if it can be resumed.

    If an earlier night began it soon after a finished run, it repeats that one (`NIGHT_S`).
    """
    if not same or same[-1].finished_s is not None:
        return None
    began_s = same[-1].started_s
    repeats = any(each.finished_s and began_s - each.started_s < NIGHT_S for each in same)
    return None if repeats and began_s < since_s else began_s


def node_hours(run: Path, nodes: Mapping[str, int], since_s: float) -> float:
    """Node-hours of all blocks that have begun since a moment; `nodes`: case -> of a block.

    A finished block counts from the conductor's start to its end; any other one from the start of
    its first sample to the end of its last. Waiting in the queue costs nothing.
    """
    used = (
        count * max(end_s - start_s, 0.0)
        for case, count in nodes.items()
        for start_s, end_s in _blocks(run, case)
        if start_s >= since_s
    )
    return sum(used) / 3600


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


# The night's own child runs, and those that repeat cases.


@dataclass(frozen=True)
class NightSession:
    """Runs a night's campaign, and repeats of its cases, within its window and its budget."""

    nightly: Nightly
    #: The runs of the night so far.
    night: NightRuns
    #: Whether Slurm runs the jobs, so that nodes can be chosen.
    slurm: bool
    end_s: float
    budget_node_h: float
    log: Path
    lock: int
    clock_s: Callable[[], float] = time.time
    verbose: bool = False

    def measure(self, runs: NightRuns, *options: str) -> EndedRun:
        """Run or resume what `runs` has, until the night has no time or no budget left.

        Messages are appended to the log. The child keeps the machine's lock until it has ended,
        even if this process is killed.
        """
        argv = [*NIMC, "run", str(self.nightly.campaign), "--machine", self.nightly.machine]
        argv += ["--results", str(self.nightly.results), "--json", *options]
        argv += ["--verbose"] if self.verbose else []
        try:
            said = self.log.open("ab")
        except OSError as error:
            raise MachineError(f"{self.log}: {error.strerror}") from error
        with said, tempfile.TemporaryFile() as output, Interrupts() as interrupts:
            began = said.tell()
            child = start(
                argv, output, errors=said, environment=environment(), cwd=ROOT, pass_fds=[self.lock]
            )
            stopped = _attend(child, interrupts, lambda: self._limit(runs))
            output.seek(0)
            printed = self.log.read_bytes()[began:].decode(errors="replace")
            last = last_line(printed).removeprefix("nimc: ")
            document: dict[str, Any] = {}
            with suppress(ValueError):  # it was killed, or failed before it printed one
                document = json.loads(output.read())
            return EndedRun(child.returncode, document, last, stopped)

    def _limit(self, runs: NightRuns) -> str | None:
        if found := runs.current():
            self.night.used.add(found)
        if self.clock_s() >= self.end_s:
            return "its window ended"
        used_up = self.night.used_node_h() >= self.budget_node_h
        return "its budget was used up" if used_up else None

    def repeat(self, run: Path, alarms: Sequence[Alarm]) -> Iterator[str]:
        """Run the cases of the alarms that `run` raised again; yields why some were not.

        Alarms of cases that ran on the same nodes are repeated together.
        """
        of_nodes = grouped((",".join(alarm.nodes), alarm) for alarm in alarms)
        for nodes, those in of_nodes.items():
            if all(alarm.state != "suspected" for alarm in those):
                continue
            cases = list(dict.fromkeys(alarm.case for alarm in those))
            try:
                reason = self._repeat(run, cases, nodes if self.slurm else None)
            except InputError as error:
                reason = str(error)
            if reason:
                yield f"not confirmed: {', '.join(cases)}: {reason}"

    def _repeat(self, run: Path, cases: Sequence[str], nodes: str | None) -> str | None:
        """Returns why it was not begun, or ended early. Raises InputError for other nodes."""
        request = prepare(self.nightly.campaign, self.nightly.machine, nodelist=nodes, only=cases)
        planned = request.plan()
        new, first = new_header(request), load_header(run)
        begun = [
            (path, each.finished_s)
            for path, each in runs_of(self.nightly.results, new)
            if each.digest == new.digest and each.started_s > first.started_s
        ]
        done = [path for path, finished_s in begun if finished_s is not None]
        unfinished = bool(begun) and begun[-1][1] is None  # the last one is resumed
        for each in done:
            add_run(self.nightly.store, each)  # the night may have been killed before it did
        missing = REPEATS - len(done)
        left_node_h = self.budget_node_h - self.night.used_node_h()
        of_case = {case.case: case.nodes for case in planned.cases}
        left_s = self.end_s - self.clock_s()
        if missing > 0 and (reason := too_much(run, missing, of_case, left_s, left_node_h)):
            return reason
        options = [f"--case={case}" for case in cases]
        options += [f"--nodelist={nodes}"] if nodes else []
        for number in range(missing):
            fresh = [] if unfinished and number == 0 else ["--fresh"]
            if reason := self._once(request, planned, [*fresh, *options]):
                return reason
        return None

    def _once(self, request: Request, planned: Plan, options: Sequence[str]) -> str | None:
        """One run, added to the store; returns why it did not measure all."""
        runs = NightRuns.of(self.nightly.results, request, planned, self.clock_s())
        ended = self.measure(runs, *options)
        self._limit(runs)
        if ended.stopped or ended.status not in (0, 1):
            return ended.stopped or ended.said
        found = runs.current() or ended.concluded
        if found is None:
            return "a run left no samples"
        add_run(self.nightly.store, found)
        return None


def too_much(
    run: Path, repeats: int, nodes: Mapping[str, int], left_s: float, left_node_h: float
) -> str | None:
    """Why so many repeats of the cases of a run are too much; None if they fit.

    `nodes` are the cases, with the nodes of their blocks. A repeat takes as long as the run did.
    """
    used_node_h = {case: node_hours(run, {case: count}, 0.0) for case, count in nodes.items()}
    need_node_h = repeats * sum(used_node_h.values())
    need_s = repeats * sum(3600 * used_node_h[case] / count for case, count in nodes.items())
    if need_node_h > left_node_h:
        return f"{left_node_h:.3g} node-hours are left; {need_node_h:.3g} are needed"
    if need_s > left_s:
        return f"{left_s / 60:.3g} minutes are left; {need_s / 60:.3g} are needed"
    return None
