"""Overhead of a campaign on Slurm, and rate of writers under the project against bare ones.

Both on a minicluster, with an application that sleeps. Needs root and Slurm.
"""

import json
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from analysis.statistics.interval import median_interval
from nimc.base.errors import MachineError
from nimc.machine import slurm
from nimc.machine.site import Origins
from nimc.node.injectors.base import Row, Writer
from nimc.node.injectors.perftest import Perftest
from nimc.records.plan import BlockPlan, Demand
from testbed.spec import Fabric
from tests.bench import BenchRow
from tests.bench import _minicluster as mini
from tests.nimc.node.treatments import treatments
from tests.undisturbed import UNJUDGED

_COMMAND = "python -m tests.bench slurm"
_ORIGINS = Origins(policy="hetjob", partition="origin")
#: Two blocks at a time: about 12 minutes for 20.
_BLOCKS = int(os.environ.get("NIMC_BENCH_BLOCKS", "20"))
_PAIRS = 2
_RUN_S = float(os.environ.get("NIMC_BENCH_RUN_S", "15"))
#: An emulated processor's rates differ by a third from run to run.
_ROUNDS = 10
_WRITE_S = 8
#: An emulated processor prints rows late, and what it sends again is counted twice.
_EMULATED = Demand(min_share=0.001, counter_share=0.5, late_rows=10, pause_s=5, **UNJUDGED)
#: slurmctld may report the accounting of a job this long after its end.
_BOOKED_S = 6.0


def run() -> list[BenchRow]:
    """Node-seconds a node-second of application over veth; rate of writers over rxe."""
    rows = []
    fabrics: list[tuple[Fabric, Any]] = [("veth", _cost), ("rxe", _rate)]
    for fabric, measure in fabrics:
        if reason := mini.lacks(fabric):
            print(f"slurm over {fabric}: not measured: {reason}")
        else:
            rows += measure()
    return rows


def _plan(
    folder: Path,
    block: int,
    arms: list[str],
    duration_s: float,
    writes: dict[str, Any],
    **more: Any,
) -> Path:
    """Write the plan of one block; one of one pair unless `more` says so."""
    plan = BlockPlan(
        case="bench",
        workload="lammps",
        block=block,
        seed=1,
        treatments=treatments(arms, mini.sleeper(duration_s), writes),
        warmups=0,
        nimc_dir=str(folder / "run"),
        origin_policy="hetjob",
        interface="eth0",
        agent_launcher=slurm.agent_launcher(_ORIGINS),
        **{"pairs": 1, **more},
    )
    path = folder / f"plan-{block}.json"
    plan.save(path)
    return path


def _samples(folder: Path) -> list[dict[str, Any]]:
    path = folder / "run" / "samples" / "bench.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    kept = [s for s in map(json.loads, lines) if s["outcome"] == "kept"]
    if not kept:
        said = " ".join(" ".join(p.read_text() for p in folder.glob("*.out")).split())
        raise MachineError(f"no run was accepted: {said[-300:]}")
    return kept


def _cost() -> list[BenchRow]:
    """Two blocks at a time on 4 nodes, each with one target and one origin."""
    with mini.minicluster("--nodes", "4", "--origins", "2") as folder:
        demand = Demand(min_share=0.001, retries=0, **UNJUDGED)
        plans = [
            _plan(
                folder,
                block,
                ["off", "on"],
                _RUN_S,
                {"devices": ("eth0",)},
                pairs=_PAIRS,
                demand=demand,
            )
            for block in range(_BLOCKS)
        ]
        jobs = [
            mini.submit(folder, f"job-{block}", 1, mini.conductor(plan))
            for block, plan in enumerate(plans)
        ]
        for job in jobs:
            job.wait()
        time.sleep(_BOOKED_S)
        booked = subprocess.run(
            ["sacct", "-XnP", "-o", "elapsedraw,nnodes"],
            check=True, capture_output=True, text=True, env=mini.environment(folder),
        ).stdout.split()  # fmt: skip
        samples = _samples(folder)
    components = [tuple(map(int, line.split("|"))) for line in booked]
    used = sum(elapsed_s * nodes for elapsed_s, nodes in components)
    targets = sum(s["elapsed_s"] * len(s["nodes"]) for s in samples)
    everywhere = sum(s["elapsed_s"] * len(s["nodes"] + s["origin_nodes"]) for s in samples)
    runs_each = 2 * _PAIRS
    runs = f"{_BLOCKS} blocks of {runs_each * _RUN_S:g} s of application"
    own_s = (used - everywhere) / len(components)
    return [
        BenchRow(
            f"node-seconds used / node-seconds of application, {runs}", used / everywhere, "",
            "under 1.25", used / everywhere < 1.25, _COMMAND,
        ),
        BenchRow("the same, application on target nodes alone", used / targets, "", "", None,
                 _COMMAND),
        BenchRow("a block's time without its application", own_s, "s", "", None, _COMMAND),
        BenchRow("runs accepted, of those planned", len(samples) / (runs_each * _BLOCKS), "", "",
                 None, _COMMAND),
    ]  # fmt: skip


def _rate() -> list[BenchRow]:
    """`ib_write_bw` by hand and under the conductor in one job, either first by turns."""
    with mini.minicluster("--fabric", "rxe", "--nodes", "2", "--origins", "1") as folder:
        lines = []
        for index in range(_ROUNDS):
            plan = _plan(
                folder, index, ["on"], _WRITE_S, {"injector": "perftest", "devices": ("rxe0",)},
                demand=_EMULATED,
            )  # fmt: skip
            both = [_bare(folder, index), mini.conductor(plan)]
            lines += both if index % 2 else both[::-1]
        mini.submit(folder, "job", 1, "\n".join(lines)).wait()
        ratios, rates = [], []
        for sample in _samples(folder):
            bare_b_s = _bare_rate_b_s((folder / f"bare-{sample['block']}").read_text())
            rates.append(bare_b_s)
            ratios.append(sample["writers"][0]["rate_b_s"] / bare_b_s)
    ratio = median_interval(ratios)
    if ratio is None:
        raise MachineError(
            f"writers' rate: {len(ratios)} rounds were accepted, an interval needs 6"
        )
    return [
        BenchRow(
            f"writers' rate under the project / bare ib_write_bw, median of {len(ratios)}",
            ratio.value, "", "at least 0.98", ratio.value >= 0.98, _COMMAND,
        ),
        BenchRow("the same, lower end of its interval", ratio.low, "", "", None, _COMMAND),
        BenchRow("the same, upper end", ratio.high, "", "", None, _COMMAND),
        BenchRow("rate of bare ib_write_bw, median", statistics.median(rates) / 1e6, "MB/s", "",
                 None, _COMMAND),
    ]  # fmt: skip


def _writer(index: int) -> Writer:
    return Writer(
        index=0, origin="node2", target="node1", address="node1", port=18000 + index,
        message_b=65536, device="rxe0",
    )  # fmt: skip


def _bare(folder: Path, index: int) -> str:
    """Lines of a job that start the very command lines that the project starts, and no more."""
    perftest, writer = Perftest(), _writer(index)
    target, origin = perftest.target_command(writer), perftest.origin_command(writer)
    step = "srun --overlap --mpi=none --ntasks=1"
    return (
        f"{step} --het-group=0 timeout {_WRITE_S + 20} {' '.join(target)} > /dev/null &\n"
        "sleep 4\n"
        f"{step} --het-group=1 timeout -s INT {_WRITE_S + 4} {' '.join(origin)}"
        f" > {folder}/bare-{index}\n"
        "kill $!; wait $!"
    )


def _bare_rate_b_s(text: str) -> float:
    """Mean of the rows; the first, of the start, is left out as the project leaves it out."""
    parser = Perftest().parser(_writer(0))
    rows = [row for row in map(parser.parse, text.splitlines()) if isinstance(row, Row)]
    if len(rows) < 2:
        raise MachineError(f"bare ib_write_bw: too few rows: {' '.join(text.split())[-300:]}")
    return statistics.mean(row.rate_b_s for row in rows[1:])
