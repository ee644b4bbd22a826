"""The sweep over nodes, with a stand-in for `nimc run`."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nimc.run.node_sweep import NodeSweep, NodeSweeper, finished_run, open_sweep, save_sweep
from records.errors import InputError
from records.interrupts import Interrupts
from records.run import save_header
from tests.analysis.synthetic import header

SWEEP = NodeSweep("nodes", "m", "abc", ["n1", "n2", "n3", "n4", "n5"], 1.75e9)


class Sweeper(NodeSweeper):
    """Starts a shell that waits for a file, instead of `nimc run`; records how many run."""

    most = 0
    started: list[str]

    def _start(self, node: str) -> subprocess.Popen[bytes]:
        self.started.append(node)
        run = self.folder / node / "run"
        run.mkdir(parents=True, exist_ok=True)
        done = node not in self.broken
        save_header(run, header(run="run", finished_s=2e9 if done else None))
        (self.folder / f"{node}.log").write_text("nimc: starts\nnimc: no such node\n")
        return subprocess.Popen([sys.executable, "-c", f"raise SystemExit({0 if done else 3})"])

    def _ended(self, node: str, status: int) -> dict[str, str]:
        self.most = max(self.most, len(self.started) - len(self.ended))
        self.ended.append(node)
        return super()._ended(node, status)


def swept(folder: Path, jobs: int, broken: tuple[str, ...] = ()) -> tuple[Sweeper, dict[str, str]]:
    with Interrupts() as interrupts:
        sweeper = Sweeper(folder, SWEEP, Path("c.yaml"), jobs, interrupts, lambda _: None)
        sweeper.started, sweeper.ended, sweeper.broken = [], [], broken
        return sweeper, sweeper.run_all()


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_node_is_run_once_with_at_most_so_many_jobs(tmp_path: Path, jobs: int) -> None:
    sweeper, failed = swept(tmp_path, jobs)
    assert failed == {}
    assert sweeper.started == SWEEP.nodes
    assert sweeper.most == jobs


def test_a_failed_node_is_named_and_tried_again(tmp_path: Path) -> None:
    _, failed = swept(tmp_path, 2, broken=("n3",))
    assert failed == {"n3": "exit status 3: no such node"}
    assert finished_run(tmp_path, "n3") is None
    sweeper, failed = swept(tmp_path, 2)
    assert (sweeper.started, failed) == (["n3"], {})
    assert finished_run(tmp_path, "n3") == tmp_path / "n3/run"


def test_an_unfinished_sweep_is_resumed_and_a_finished_one_is_not(tmp_path: Path) -> None:
    folder, _ = open_sweep(tmp_path, SWEEP, SWEEP.nodes, fresh=False)
    later = replace(SWEEP, started_s=1.76e9)
    resumed, known = open_sweep(tmp_path, later, SWEEP.nodes, fresh=False)
    assert (resumed, known) == (folder, SWEEP)
    other = replace(later, digest="other")
    assert open_sweep(tmp_path, other, SWEEP.nodes, fresh=False)[0] != folder
    new, _ = open_sweep(tmp_path, replace(later, started_s=1.77e9), SWEEP.nodes, fresh=True)
    save_sweep(new, replace(later, finished_s=1.77e9))
    last = replace(later, started_s=1.78e9)
    assert open_sweep(tmp_path, last, SWEEP.nodes, fresh=False)[0] not in (folder, new)


def test_a_resumed_sweep_has_the_nodes_that_are_asked_for(tmp_path: Path) -> None:
    folder, _ = open_sweep(tmp_path, SWEEP, SWEEP.nodes, fresh=False)
    # n5 is down now, n6 is new: n5 was asked for before, and is asked for again.
    more = replace(SWEEP, nodes=["n1", "n2", "n3", "n4", "n6"], started_s=1.76e9)
    resumed, known = open_sweep(tmp_path, more, [*SWEEP.nodes, "n6"], fresh=False)
    assert (resumed, known.nodes) == (folder, ["n1", "n2", "n3", "n4", "n5", "n6"])
    # Only n1 is asked for: the others of the old sweep are not run.
    one = replace(SWEEP, nodes=["n1"], started_s=1.77e9)
    new, known = open_sweep(tmp_path, one, ["n1"], fresh=False)
    assert (new != folder, known.nodes) == (True, ["n1"])
    (new / "sweep.json").write_text('{"campaign": "../x"}')
    with pytest.raises(InputError, match=r"sweep\.json"):
        open_sweep(tmp_path, one, ["n1"], fresh=False)
