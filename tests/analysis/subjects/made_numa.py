"""Makes runs on NUMA nodes with chosen rates."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from records.sample import Sample
from tests.analysis.synthetic import Case, crossed, header, samples, write_run

GB = 1e9


class Key(NamedTuple):
    """A cell of the table: the conditions under which a rate is measured."""

    direction: str
    buffer: str
    load: str
    workers: str


#: Cell -> rates of communications in six runs, GB/s. A single number is the rate of all six.
TWO_NODES = {
    Key("write", "nic", "idle", ""): 8,
    Key("write", "nic", "write", "nic"): 6,
    Key("write", "nic", "write", "free"): 1.5,
    Key("write", "other", "idle", ""): 4,
    Key("write", "other", "write", "other"): 1,
    Key("write", "other", "write", "free"): [1, 2, 3, 4, 5, 6],
    Key("read", "other", "idle", ""): 5,
    Key("read", "other", "write", "other"): 3.7,
    Key("read", "other", "write", "free"): [1, 2, 3, 4, 5, 6],
}


def runs_of(
    grid: Mapping[Key, object], cell_fields: Mapping[Key, dict[str, object]] = {}, **writer: object
) -> list[Sample]:
    """Return runs of one case whose treatments are the cells. Nothing of them was measured.

    Workers reach 10 GB/s without communications, and 5 GB/s beside them. In a cell without workers,
    their place does not matter. `cell_fields` has other fields for the writer's record of a cell.
    """
    placed = {"buffer_node": 0, "target_on_node_share": 1.0, "own_binding": "none", **writer}
    effects: dict[str, float] = {}
    rates: dict[str, object] = {}
    placed_as = {}
    for key, rate in grid.items():
        workers = key.workers or "nic"
        levels = f"buffer={key.buffer},load={key.load},workers={workers}"
        off, spin, on = f"off@{levels}", f"spin@{levels}", f"on@{levels},direction={key.direction}"
        effects |= {off: 1.0, spin: 1.25 if key.buffer == "other" else 1.6, on: 2.0}
        rates[on] = rate
        placed_as[on] = {**placed, **cell_fields.get(key, {})}
    case = Case(
        name="numa",
        unit="B/s",
        better="higher",
        base=10 * GB,
        effects=effects,
        noise=0,
        pair_noise=0,
    )
    case = crossed(case, dict.fromkeys(("buffer", "load", "workers"), "none"))
    runs = []
    for sample in samples(case, pairs=6):
        if sample.arm in rates:
            rate = rates[sample.arm]
            rate_gb_s = rate[sample.pair] if isinstance(rate, list) else rate
            (record,) = sample.writers
            written = {"rate_b_s": rate_gb_s * GB, "direction": sample.factors["direction"]}
            written |= placed_as[sample.arm]
            sample = replace(sample, writers=[replace(record, **written)])
        runs.append(sample)
    return runs


def write(folder: Path, runs: list[Sample], nodes: int = 2) -> Path:
    """Write the samples as a run on a machine with `nodes` NUMA nodes."""
    facts = {"numa_nodes": nodes, "nic_node": 0, "places": {"nic": 0, "other": 1}}
    return write_run(folder / "run", runs, header(campaign="numa"), {"numa": facts})


def run_of(folder: Path, grid: Mapping[Key, object], nodes: int = 2, **more: Any) -> Path:
    return write(folder, runs_of(grid, **more), nodes)
