"""Makes runs of the workloads in the paper's tables, with figures that are easy to check."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from analysis.report.data import RunData
from records.sample import Sample
from tests.analysis.synthetic import Case, changed, loaded_run, samples, write_run

#: Times of eleven runs. The first ten `off` have the mean 11, from which six differ by 1. The first
#: ten `on` have the mean 22; their squared deviations sum up to 18. The paper's estimate uses ten
#: runs, so the eleventh is left out.
OFF_S = [10.0, 12, 11, 10, 12, 11, 11, 11, 10, 12, 99]
ON_S = [20.0, 24, 22, 21, 23, 22, 22, 22, 20, 24, 198]

#: Rates whose harmonic means are 12 and 6 GB/s: 2 / (1/10 + 1/15) = 12. Each is 2.5 GB/s from the
#: arithmetic mean of 12.5, so the standard deviation is the root of 62.5/9, 2.635.
OFF_B_S = [10e9, 15e9] * 5
ON_B_S = [5e9, 7.5e9] * 5


def runs(
    name: str, off: Sequence[float], on: Sequence[float], unit: str = "s", **changes: str
) -> list[Sample]:
    """Return samples of a case with these figures of merit, one pair for each."""
    better = "lower" if unit == "s" else "higher"
    case = Case(
        name=name, unit=unit, better=better, base=1.0, effects={"on": 1.0, "aa": 1.0}, **changes
    )  # type: ignore[arg-type]
    foms = {"off": off, "aa": off, "on": on}
    return [
        replace(sample, fom=max(off) if sample.warmup else foms[sample.arm][sample.pair])
        for sample in samples(case, pairs=len(off))
    ]


def under(
    arm: str, name: str, off: Sequence[float] = OFF_S, on: Sequence[float] = ON_S, **factors: str
) -> list[Sample]:
    """Return the samples with another arm instead of `on`."""
    return changed(runs(name, off, on), lambda s: replace(s, arm=arm, factors=factors), "on")


def load(tmp_path: Path, *groups: list[Sample]) -> RunData:
    # Samples of several cases and arms are mixed, which no conductor does.
    return loaded_run(tmp_path / "run", list(chain(*groups)), force=True)


def one_node(folder: Path) -> Path:
    """Write a run in which writes halve the rate of STREAM, and double the time of LAMMPS."""
    both_cases = [*runs("stream", OFF_B_S, ON_B_S, "B/s"), *runs("lammps", OFF_S, ON_S)]
    return write_run(folder / "run", both_cases)
