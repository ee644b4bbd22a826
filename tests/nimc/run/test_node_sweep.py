"""The sweep over nodes, with a stand-in for `nimc run`."""

import subprocess
import sys
from pathlib import Path

import pytest

from nimc.run.node_sweep import NodeSweeper, finished_run, sweep_folder
from records.interrupts import Interrupts
from records.run import save_header
from tests.analysis.synthetic import TEXT, header

NODES = ["n1", "n2", "n3", "n4", "n5"]


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
        of = (folder, NODES, "m", Path("c.yaml"), TEXT, jobs)
        sweeper = Sweeper(*of, interrupts, lambda _: None)
        sweeper.started, sweeper.ended, sweeper.broken = [], [], broken
        return sweeper, sweeper.run_all()


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_node_is_run_once_with_at_most_so_many_jobs(tmp_path, jobs):
    sweeper, failed = swept(tmp_path, jobs)
    assert failed == {}
    assert sweeper.started == NODES
    assert sweeper.most == jobs


def test_a_failed_node_is_named_and_tried_again(tmp_path):
    _, failed = swept(tmp_path, 2, broken=("n3",))
    assert failed == {"n3": "exit status 3: no such node"}
    assert finished_run(tmp_path, "n3", TEXT) is None
    sweeper, failed = swept(tmp_path, 2)
    assert (sweeper.started, failed) == (["n3"], {})
    assert finished_run(tmp_path, "n3", TEXT) == tmp_path / "n3/run"


def test_a_sweep_continues_until_every_requested_node_is_measured(tmp_path):
    folder = tmp_path / "nodes-m-nodes-20260101-000000"
    folder.mkdir()

    def next_sweep(nodes: list[str], text: str = TEXT, *, fresh: bool = False) -> bool:
        """Whether it is the same one."""
        return sweep_folder(tmp_path, "nodes-m", text, nodes, fresh=fresh) == folder

    swept(folder, 2, broken=("n3",))
    assert next_sweep(NODES)
    assert next_sweep(["n3"])
    assert next_sweep(["n1"], "another campaign")
    assert not next_sweep(["n3"], fresh=True)
    for new in tmp_path.glob("nodes-m-nodes-2026[!0]*"):
        new.rmdir()
    swept(folder, 2)
    assert next_sweep([*NODES, "n6"])
    assert not next_sweep(NODES)
