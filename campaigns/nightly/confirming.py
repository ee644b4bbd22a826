"""Confirms the alarms that a night's run raised: the same night runs their cases again.

Each repeat is a run of the cases with allocations of its own, on the nodes of the run that raised
the alarms. `analysis.history.confirm` says what the repeats show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import InputError
from analysis.history.alarm import Alarm
from analysis.history.confirm import REPEATS
from analysis.history.store import add_run
from campaigns.nightly.description import Nightly
from campaigns.nightly.measure import measure
from campaigns.nightly.spent import NightRuns, node_hours
from campaigns.planning.plan import Plan, plan
from campaigns.planning.prepare import Request, prepare
from campaigns.running.folder import link_latest


@dataclass
class NightRepeats:
    """The runs of a night that repeat cases, within its window and what is left of its budget."""

    nightly: Nightly
    #: Whether Slurm runs the jobs, so that nodes can be chosen.
    slurm: bool
    end_s: float
    left_node_h: float
    log: Path
    lock: int
    clock_s: Callable[[], float] = time.time
    verbose: bool = False
    used_node_h: float = 0.0

    def repeat(self, run: Path, alarms: Sequence[Alarm]) -> Iterator[str]:
        """Run the cases of the alarms that `run` raised again; yields why some were not.

        In the end `latest` leads to `run`, since repeats have some of the cases only.
        """
        of_nodes: dict[str, list[str]] = {}
        for alarm in alarms:
            cases = of_nodes.setdefault(",".join(alarm.nodes), [])
            cases += [alarm.case] if alarm.case not in cases else []
        for nodes, cases in of_nodes.items():
            try:
                why = self._repeat(run, cases, nodes if self.slurm else None)
            except InputError as error:
                why = str(error)
            if why:
                yield f"not confirmed: {', '.join(cases)}: {why}"
        link_latest(run)

    def _repeat(self, run: Path, cases: Sequence[str], nodes: str | None) -> str | None:
        """Returns why it was not begun, or ended early. Raises InputError for other nodes."""
        asked = prepare(
            self.nightly.campaign, self.nightly.asked.machine, nodelist=nodes, only=cases
        )
        planned = plan(asked.campaign, asked.site)
        of_case = {case.case: case.nodes for case in planned.cases}
        if why := too_much(
            run, of_case, self.end_s - self.clock_s(), self.left_node_h - self.used_node_h
        ):
            return why
        options = ["--fresh", *(f"--case={case}" for case in cases)]
        options += [f"--nodelist={nodes}"] if nodes else []
        for _ in range(REPEATS):
            if why := self._once(asked, planned, options):
                return why
        return None

    def _once(self, asked: Request, planned: Plan, options: Sequence[str]) -> str | None:
        """One run, added to the store; returns why it did not measure all."""
        results, before_node_h = self.nightly.results, self.used_node_h
        runs = NightRuns.of(results, asked, planned, self.clock_s())

        def limit() -> str | None:
            self.used_node_h = before_node_h + runs.used_node_h()
            if self.clock_s() >= self.end_s:
                return "its window ended"
            return None if self.used_node_h < self.left_node_h else "its budget was used up"

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
        found = runs.current()
        if found is None:
            return "a run left no samples"
        add_run(self.nightly.store, found)
        return None


def too_much(run: Path, nodes: Mapping[str, int], left_s: float, left_node_h: float) -> str | None:
    """Why repeats of the cases of a run are too much; None if they fit.

    `nodes` are the cases, with the nodes of their blocks. A repeat takes as long as the run did.
    """
    used_node_h = {case: node_hours(run, {case: count}, 0.0) for case, count in nodes.items()}
    need_node_h = REPEATS * sum(used_node_h.values())
    need_s = REPEATS * sum(3600 * used_node_h[case] / count for case, count in nodes.items())
    if need_node_h > left_node_h:
        return f"{left_node_h:.3g} node-hours are left; {need_node_h:.3g} are needed"
    if need_s > left_s:
        return f"{left_s / 60:.3g} minutes are left; {need_s / 60:.3g} are needed"
    return None
