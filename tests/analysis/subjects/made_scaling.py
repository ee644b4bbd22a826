"""Makes a run at several scales, which are numbers of ranks."""

from dataclasses import replace
from pathlib import Path

from analysis.report.data import RunData
from tests.analysis.synthetic import STARTED_S, Case, header, loaded_run, reject, samples

EFFECTS = {"daly": 1.5, "constant": 1.2, "aa": 1.0}


def run_of(
    folder: Path,
    *ranks: int,
    workload: str = "lammps_scaling",
    pairs: int = 6,
    effects: dict[str, float] = EFFECTS,
    later_s: float = 0.0,
) -> RunData:
    """Return a run in which `off` takes ten seconds at every scale; one sample was rejected."""
    runs = [
        replace(sample, fom_extra={"ranks": float(count)})
        for count in ranks
        for sample in samples(
            Case(
                name=f"{workload}@{count}",
                unit="s",
                better="lower",
                base=10.0,
                effects=effects,
                noise=0.001,
                pair_noise=0.0,
            ),
            pairs=pairs,
        )
    ]
    runs[5] = reject(runs[5], "rejected", "too late")
    head = header(started_s=STARTED_S + later_s)
    return loaded_run(folder / "run", runs, head, force=True)
