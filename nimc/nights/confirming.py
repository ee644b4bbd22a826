"""Confirms the alarms that a night's run raised: the same night runs their cases again.

Each repeat is a run of the cases with allocations of its own, on the nodes of the run that raised
the alarms. `analysis.history.alarms` says what the repeats show. A night that was killed meanwhile
and started again resumes its last repeat, and runs those that are missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.history.alarms import REPEATS, Alarm
from analysis.history.store import add_run
from nimc.base.errors import InputError
from nimc.campaign.plan import Plan
from nimc.campaign.prepare import Request, prepare
from nimc.nights.description import Nightly
from nimc.nights.measure import NightRuns, measure, node_hours, runs_of
from nimc.records.run import load_header
from nimc.run.folder import new_header


@dataclass(frozen=True)
class NightRepeats:
    """The runs of a night that repeat cases, within its window and its budget."""

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

    def repeat(self, run: Path, alarms: Sequence[Alarm]) -> Iterator[str]:
        """Run the cases of the alarms that `run` raised again; yields why some were not.

        Alarms of cases that ran on the same nodes are repeated together.
        """
        of_nodes: dict[str, list[Alarm]] = {}
        for alarm in alarms:
            of_nodes.setdefault(",".join(alarm.nodes), []).append(alarm)
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
        request = prepare(
            self.nightly.campaign, self.nightly.asked.machine, nodelist=nodes, only=cases
        )
        planned = request.plan()
        done, unfinished = self._begun(run, request)
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

    def _begun(self, run: Path, request: Request) -> tuple[list[Path], bool]:
        """The finished repeats, and whether the last one was begun and not finished."""
        new, first = new_header(request), load_header(run)
        begun = [
            (path, each.finished_s)
            for path, each in runs_of(self.nightly.results, new)
            if each.digest == new.digest and each.started_s > first.started_s
        ]
        done = [path for path, finished_s in begun if finished_s is not None]
        return done, bool(begun) and begun[-1][1] is None

    def _once(self, request: Request, planned: Plan, options: Sequence[str]) -> str | None:
        """One run, added to the store; returns why it did not measure all."""
        runs = NightRuns.of(self.nightly.results, request, planned, self.clock_s())

        def limit() -> str | None:
            if found := runs.current():
                self.night.used.add(found)
            if self.clock_s() >= self.end_s:
                return "its window ended"
            used_up = self.night.used_node_h() >= self.budget_node_h
            return "its budget was used up" if used_up else None

        ended = measure(
            self.nightly,
            *options,
            log=self.log,
            limit=limit,
            lock=self.lock,
            verbose=self.verbose,
        )
        limit()
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
