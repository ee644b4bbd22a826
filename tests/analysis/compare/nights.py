"""Makes nights for tests: a night is a synthetic run, as a campaign leaves it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from analysis.report.data import RunData
from tests.analysis.synthetic import STREAM, Case, header, loaded_run, on_hosts, samples


def night(
    folder: Path,
    *cases: Case,
    seed: int = 1,
    pairs: int = 7,
    node: Mapping[str, object] | None = None,
    **changes: object,
) -> RunData:
    """Return a run of `cases`, named after its folder, on a node with the facts `node`."""
    drawn = [sample for case in cases for sample in samples(case, pairs=pairs, seed=seed)]
    head = header(**{"run": folder.name, **changes})
    if node is None:
        return loaded_run(folder, drawn, head)
    host = f"node-of-{folder.name}"
    record = {"nodes": {host: node}, "seed": seed}
    return loaded_run(folder, [on_hosts(sample, host) for sample in drawn], head, record)


def nights(folder: Path, name: str, *effects: float) -> list[RunData]:
    """Return a night of STREAM for each slowdown in `effects`."""
    cases = [replace(STREAM, effects={**STREAM.effects, "on": effect}) for effect in effects]
    return [night(folder / f"{name}{n}", case, seed=n) for n, case in enumerate(cases)]
