"""Made runs of the campaign `qualify` between two hosts, with faults. Nothing here was measured.

The devices have 100 Gbit/s, of which a writer reaches 11 GB/s, and are on NUMA node 0, as the
machine's file says; memory on node 0 takes all of it, that on node 1 nine tenths. Devices count
0.5 % more than is written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from records.arms import name_of
from records.sample import NodeConditions, Sample, WriterRecord
from tests.analysis.synthetic import HOST, Case, crossed, header, reject, samples, write_run

ORIGIN = "origin-0"
LINK_B_S, ALONE_B_S = 12.5e9, 11e9
SHARES = {"full": 1.0, "50%": 0.5, "25%": 0.25}
COUNTER = "rdma:mlx5_0/1"


@dataclass(frozen=True)
class Fault:
    """What is not as it should be; without any, a clean run."""

    #: The machine's file, and clocks, where they differ.
    site: Mapping[str, Any] = field(default_factory=dict)
    offsets_s: Mapping[str, float] = field(default_factory=lambda: {HOST: 1e-6, ORIGIN: 2e-4})
    #: Each sample, and each of its writers, as it is written instead.
    sample: Callable[[Sample], Sample] = lambda sample: sample
    writer: Callable[[Sample, WriterRecord], WriterRecord] = lambda _, writer: writer
    #: What the device counts / what is written, and what arrives though nothing is written, bytes
    #: per second; None: no counter.
    counts: Callable[[Sample], float | None] = lambda _: 1.005
    foreign_b_s: float = 1e5
    #: True time of the repeated baseline / that of the baseline.
    aa: float = 1.0
    #: Rate into the far memory / into the near one, and speed of the far memory / of the near one.
    far: float = 0.9
    far_memory: float = 0.6


def _cases(fault: Fault) -> list[Case]:
    pairs = {"noise": 0.004, "pair_noise": 0.01, "transport": "InfiniBand", "origin": ORIGIN}
    effects = {"aa": fault.aa, "spin": 1.0}
    for direction, rate in product(("write", "read"), SHARES):
        named = {"direction": direction} if direction == "read" else {}
        effects[name_of("on", named | ({} if rate == "full" else {"rate": rate}))] = 1.2
    memory = Case("memory", "B/s", "higher", 5e10, effects, **pairs)
    effects = {}
    for load, buffer in product(("idle", "read"), ("nic", "other")):
        named = {"load": load} if load == "read" else {}
        named |= {"buffer": buffer} if buffer == "other" else {}
        slow = 1 / fault.far_memory if (load, buffer) == ("read", "other") else 1.0
        effects |= {name_of("off", named): slow, name_of("on", named): 1.2 * slow}
    places = Case("places", "B/s", "higher", 4e10, effects, **pairs)
    ucx = Case("ucx", "B/s", "higher", 5e10, {"on": 1.2, "on@rate=50%": 1.1}, **pairs)
    return [
        crossed(memory, {}, {"direction": "write", "rate": "full"}),
        crossed(places, {"load": "idle", "buffer": "nic"}),
        crossed(ucx, {}, {"injector": "ucx", "rate": "full"}),
    ]


def _written(sample: Sample, fault: Fault, rng: np.random.Generator) -> Sample:
    """The run with its writers, and with what its target's device counted."""
    levels = sample.factors
    direction = "read" if levels.get("direction") == "read" else "write"
    share = SHARES[str(levels.get("rate", "full"))] if sample.role == "effect" else 0.0
    alone = ALONE_B_S * share * (fault.far if levels.get("buffer") == "other" else 1.0)
    rate = alone * float(rng.uniform(0.96, 0.99))
    injector = "ucx" if sample.case == "ucx" else "mpi_put"
    writers = [
        replace(
            each,
            injector=f"{injector}_read" if direction == "read" else injector,
            direction=direction,
            rate_alone_b_s=alone,
            rate_before_b_s=alone * float(rng.uniform(0.99, 1.01)),
            asked_b_s=alone if share < 1 else None,
            rate_b_s=rate,
            rate_min_b_s=0.97 * rate,
            bytes_b=rate * sample.elapsed_s,
            overwritten_share=1.0 if direction == "write" else None,
        )
        if each.message_b
        else each
        for each in sample.writers
    ]
    writers = [fault.writer(sample, each) if each.message_b else each for each in writers]
    rate = sum(each.rate_b_s for each in writers)
    over_s = sample.elapsed_s + 0.05
    passed: dict[str, float | None] = {"write": 1e5, "read": 1e5}
    counted = fault.counts(sample)
    if sample.role == "effect":
        if counted is None:
            passed = {"write": None, "read": None}
            proofs = ["memory" if each.overwritten_share else each.proof for each in writers]
            writers = [
                replace(each, proof=proof) for each, proof in zip(writers, proofs, strict=True)
            ]
        else:
            counted_b = rate * counted * float(rng.uniform(0.998, 1.002)) * over_s
            passed[direction] = counted_b / over_s
            counts = {"counted_b": counted_b, "counted_s": over_s, "counter": COUNTER}
            writers = [replace(each, proof="device", **counts) for each in writers]
    else:
        passed["write"] = fault.foreign_b_s
    conditions = NodeConditions(
        *(HOST, over_s, 0.02, 0.001, 3e9 * float(rng.uniform(0.99, 1.01))),
        received_b_s=passed["write"],
        sent_b_s=passed["read"],
        counter=COUNTER,
    )
    return fault.sample(replace(sample, writers=writers, conditions=[conditions]))


def made_run(folder: Path, fault: Fault = Fault(), *, seed: int = 1) -> Path:
    """A run of six pairs."""
    rng = np.random.default_rng([seed, 31])
    found = [
        _written(each, fault, rng)
        for case in _cases(fault)
        for each in samples(case, pairs=6, seed=seed)
    ]
    site = {
        "device": "mlx5_0",
        "nic": {"link_rate_b_s": LINK_B_S, "processing": "offload", "model": "made"},
        "facts": {"nic_node": 0},
        "origins": {"policy": "hetjob"},
        **fault.site,
    }
    ended = all(each.outcome == "kept" for each in found)
    head = header(campaign="qualify", facts={"site": site}, machine="m")
    head = head if ended else replace(head, finished_s=None)
    return write_run(folder, found, head, {"clock_offsets_s": dict(fault.offsets_s)})


def rejected(reason: str, role: str = "effect", every: int = 1) -> Callable[[Sample], Sample]:
    """Runs of that role, or one pair of so many, rejected as the conductor would."""

    def change(sample: Sample) -> Sample:
        hit = sample.role == role and not sample.warmup and sample.pair % every == 0
        return reject(sample, "rejected", reason) if hit else sample

    return change
