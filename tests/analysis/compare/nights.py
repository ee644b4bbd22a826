"""Nights for tests: runs as a campaign leaves them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from analysis.report.data import RunData, load_run
from tests.analysis.synthetic import STREAM, Case, header, on_hosts, samples, write_run


def night(
    folder: Path,
    *cases: Case,
    seed: int = 1,
    pairs: int = 12,
    node: Mapping[str, object] | None = None,
    program_sha256: str = "0" * 64,
    **changes: object,
) -> RunData:
    """One run of `cases`, named as its folder, on a node with the facts `node`.

    Its own are the program's path, the seed and the clocks.
    """
    found = [each for case in cases for each in samples(case, pairs=pairs, seed=seed)]
    host = f"node-of-{folder.name}"
    program = {"path": f"{folder}/stream", "sha256": program_sha256}
    record = {
        **{"nodes": {host: node}, "clock_offsets_s": {"a": seed * 1e-6}},
        **{"seed": seed, "program": program},
    }
    head = header(**{"run": folder.name, **changes})
    if node is None:
        return load_run(write_run(folder, found, head))
    return load_run(write_run(folder, [on_hosts(each, host) for each in found], head, record))


def nights(
    folder: Path, name: str, effect: float = 1.35, *, count: int = 5, spread: float = 0.003
) -> list[RunData]:
    """Nights of STREAM whose slowdowns lie around `effect`."""
    rng = np.random.default_rng(list(name.encode()))
    return [
        night(
            folder / f"{name}{index}",
            replace(
                STREAM,
                effects={**STREAM.effects, "on": effect * float(np.exp(rng.normal(0, spread)))},
            ),
            seed=int(rng.integers(1_000_000)),
        )
        for index in range(count)
    ]
