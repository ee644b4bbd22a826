"""An alarm that is confirmed on the nodes that raised it, with real ReFrame, Slurm and STREAM.

The history is made, ten times as fast as this cluster, on its first node. The night runs on the
second node, since the first one is drained, and the repeats while both are free.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nimc.minicluster.real import ENV, Cluster, cluster_of
from tests.nimc.nights.made_history import make_history, multiply, read
from tests.nimc.nights.test_five_nights import NIGHTS, NIMC, Nights, wait

pytestmark = [pytest.mark.long, pytest.mark.minicluster]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield from cluster_of(3)


def samples(run: Path) -> list[dict[str, Any]]:
    (file,) = (run / "samples").glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def ran_on(run: Path) -> set[str]:
    return {node for each in samples(run) for node in each["nodes"]}


def make_faster(run: Path, factor: float) -> None:
    (file,) = (run / "samples").glob("*.jsonl")
    made = samples(run)
    for each in made:
        multiply(each, factor)
    file.write_text("".join(f"{json.dumps(each)}\n" for each in made))


def test_repeats_run_on_the_node_of_the_alarm(cluster: Cluster, tmp_path: Path) -> None:
    nights = Nights(tmp_path, "minicluster")
    state = {"NIMC_MINICLUSTER": str(cluster.state), "SLURM_CONF": str(cluster.layout.slurm_conf)}

    def start(number: int) -> subprocess.Popen[bytes]:
        command = [*NIMC, "nightly", "run", str(nights.file), "--night", str(NIGHTS[number])]
        return subprocess.Popen(command, env={**ENV, **state}, cwd=tmp_path)

    def set_first(state: str) -> None:
        change = (f"NodeName={first}", f"State={state}", "Reason=test")
        cluster.slurm("scontrol", "update", *change)

    def real_runs() -> list[Path]:
        return sorted(file.parent for file in nights.results.glob("tiny-minicluster-2*/run.json"))

    first, second = cluster.slurm("sinfo", "-hN", "-p", "compute", "-o", "%N").split()
    assert start(0).wait(280) == 0
    (run,) = real_runs()
    assert ran_on(run) == {first}
    shutil.rmtree(nights.results / "store")
    make_faster(run, 10.0)
    make_history(nights.results / "store", run, loss=0.5)

    set_first("DRAIN")
    night = start(4)
    wait(lambda: bool(real_runs()) and read(real_runs()[0] / "run.json")["finished_s"])
    set_first("RESUME")
    assert night.wait(560) == 1
    runs = real_runs()
    assert [ran_on(each) for each in runs] == [{second}] * 6
    found = nights.summary(NIGHTS[4])
    assert (found.outcome, found.run) == ("slower", str(runs[0]))
    alarms = [read(file) for file in (nights.results / "store" / "alarms").glob("*.json")]
    fom = next(each for each in alarms if (each["arm"], each["quantity"]) == ("off", "fom"))
    assert (fom["state"], fom["nodes"]) == ("confirmed", [second])
    assert fom["confirmed_by"] == [each.name for each in runs[1:]]
    # Each in an allocation of its own, as Slurm booked them, with its origin.
    nodes = [row.split("|")[1] for row in cluster.accounts(2 * 7)]
    assert (nodes.count(first), nodes.count(second), len(set(nodes))) == (1, 6, 3)
