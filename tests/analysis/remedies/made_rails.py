"""Makes runs under rail policies with known prices and losses.

A policy says which rails (network devices) of a node MPI or the writers use.
"""

from pathlib import Path

import numpy as np

from records.arms import treatment_name
from records.sample import Better, Sample
from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.synthetic import Case, crossed, samples, write_run

RANKS = 2
TOOL = "mpip"

#: Policy of MPI -> true time divided by the time at `default`.
TIMES = {"default": 1.0, "nic0": 1.0, "nic1": 1.1}

#: True slowdown under writers at their default policy, and policy of the writers -> factor of this
#: slowdown.
SLOWDOWN = 1.5
WRITERS = {"default": 1.0, "nic0": 0.8}

#: Kind of MPI calls -> true share of the application's time at `default`, and mean size of messages
#: in bytes.
SHARES = {"point-to-point": 0.2, "collective": 0.05}
MESSAGES = {"point-to-point": 40_000.0, "collective": 8.0}

#: Policy of MPI -> true time in each kind of calls, divided by the time at `default`.
CALLS = {
    "default": {"point-to-point": 1.0, "collective": 1.0},
    "nic0": {"point-to-point": 1.0, "collective": 1.0},
    "nic1": {"point-to-point": 1.4, "collective": 1.0},
}


def treatments() -> dict[str, float]:
    """Return treatment -> time divided by the time of `off`, for the campaign of multirail.yaml."""
    times = {}
    for policy, time in TIMES.items():
        level = {} if policy == "default" else {"mpi_rail": policy}
        for arm, factor in (("off", 1.0), ("on", SLOWDOWN), ("aa", 1.0)):
            times[treatment_name(arm, level)] = time * factor
            if arm != "on":
                times[treatment_name(arm, {**level, "tool": TOOL})] = time * factor
    times["on@writer_rail=nic0"] = SLOWDOWN * WRITERS["nic0"]
    del times["off"]
    return times


def case(noise: float = 0.005, better: Better = "lower", transport: str = "RDMA") -> Case:
    """Return a case whose treatments have the times of `treatments`."""
    umt = Case(
        name="umt",
        unit="s" if better == "lower" else "1/s",
        better=better,
        base=10.0,
        effects=treatments(),
        noise=noise,
        pair_noise=0.05,
        transport=transport,
        origin="synthetic-1",
    )
    return crossed(umt, {"mpi_rail": "default", "tool": "none"}, {"writer_rail": "default"})


def rails_run(folder: Path, one: Case, *, pairs: int = 10, seed: int = 1) -> Path:
    """Write a run, with mpiP's counts for each sample that was run with mpiP."""
    runs = samples(one, pairs=pairs, seed=seed)
    run = write_run(folder / f"run-{seed}", runs)
    rng = np.random.default_rng(seed)
    lines = [
        line for sample in runs if sample.factors["tool"] == TOOL for line in counts(sample, rng)
    ]
    write_rows(run, one.name, lines)
    return run


def counts(
    sample: Sample, rng: np.random.Generator, noise: float = 0.01
) -> list[dict[str, object]]:
    """Return the lines of a sample in `counters/CASE.jsonl`. Both ranks take the same time."""
    policy = str(sample.factors["mpi_rail"])
    time_s = sample.elapsed_s / TIMES[policy]
    lines = []
    for rank in range(RANKS):
        values = {"application-time": (time_s, "s")}
        for kind, share in SHARES.items():
            spread = float(np.exp(rng.normal(0, noise)))
            values[f"{kind}-time"] = (share * time_s * CALLS[policy][kind] * spread, "s")
            values[f"{kind}-calls"] = (30.0, "count")
            values[f"{kind}-messages"] = (10.0, "count")
            values[f"{kind}-sent"] = (10 * MESSAGES[kind], "B")
        common = {"tool": TOOL, "rank": rank, "running_share": None}
        lines += [
            counter_row(sample.key, event, value, unit=unit, **common)
            for event, (value, unit) in values.items()
        ]
    return lines
