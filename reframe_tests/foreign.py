"""Checks of others: their own sanity and performance functions, evaluated on every run's output.

Such a check has no row in the table of workloads and no parser. The conductor keeps each run's
output, and when the block has ended the check reads them one by one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.osext as osext
import reframe.utility.sanity as sn
from pydantic import TypeAdapter
from reframe.core.exceptions import ReframeError

from analysis import units
from analysis.sample import Better, Sample
from injection.conductor import UNREAD
from injection.fom import Fom, FomError
from injection.store import Store

_SAMPLE = TypeAdapter(Sample)


@dataclass(frozen=True)
class Figure:
    """The performance variable that stands for a check, in SI units."""

    name: str
    unit: str
    better: Better
    #: What values as the check reports them are multiplied by.
    factor: float
    #: What a reader must know of how it was chosen.
    notes: list[str]


def si(unit: str) -> tuple[float, str]:
    """Factor and SI unit of a unit as checks write it; an unknown one stays as it is."""
    for known, name in ((units.SECONDS, "s"), (units.BYTES_PER_SECOND, "B/s"), (units.BYTES, "B")):
        if unit in known:
            return known[unit], name
    return 1.0, unit


def direction(reference: tuple[Any, ...] | None, asked: str, unit: str) -> tuple[Better, str]:
    """Which direction is better, and where that is from; raises ValueError where nothing says it.

    `reference` is ReFrame's (value, lower, upper): a bound on one side alone tells the direction.
    """
    if asked:
        return ("lower" if asked == "lower" else "higher"), "as asked"
    if reference is not None and (reference[1] is None) != (reference[2] is None):
        return ("lower" if reference[1] is None else "higher"), "by the check's reference"
    if unit == "s":
        return "lower", "by its unit alone"
    if unit.endswith("/s"):
        return "higher", "by its unit alone"
    raise ValueError


class OwnReader:
    """Reads runs with the functions of the check that ran them."""

    def __init__(self, check: rfm.RegressionTest, sanity: Any, performance: Mapping[str, Any]):
        self._check = check
        self._sanity = sanity
        self._performance = performance
        self.figure = self._choose()

    def _choose(self) -> Figure:
        check, names = self._check, list(self._performance)
        name = check.figure or next(iter(names), "")
        if name not in names:
            allowed = ", ".join(names) or "none, the check has no performance function"
            raise ReframeError(f"{check.name}.figure: {name!r} found; allowed: {allowed}")
        factor, unit = si(self._performance[name].unit)
        try:
            better, source = direction(self._reference(name), check.better, unit)
        except ValueError:
            raise ReframeError(
                f"{check.name}.better: whether {name} in {unit} is better lower or higher is not"
                " known; allowed: lower, higher"
            ) from None
        notes = [f"figure of merit: {name} of check {check.name}, {better} is better ({source})"]
        if len(names) > 1 and not check.figure:
            notes[0] += f"; the first of {len(names)}"
        return Figure(name, unit, better, factor, notes)

    def _reference(self, name: str) -> tuple[Any, ...] | None:
        try:
            found = self._check.reference[f"{self._check.current_partition.fullname}:{name}"]
        except KeyError:
            return None
        return found if isinstance(found, tuple) else None

    def read(self, out: Path, err: Path) -> Fom:
        """The figure of merit of a run, from its output. Raises FomError."""
        with _output(self._check, out, err):
            self._require_sane()
            values = {name: self._value(name) for name in self._performance}
        value = values.pop(self.figure.name)
        if value is None or not 0 < value < float("inf"):
            raise FomError(f"{self.figure.name} is {value}; a positive number is needed")
        extra = {name: float(each) for name, each in values.items() if each is not None}
        figure = self.figure
        return Fom(value * figure.factor, extra, figure.unit, figure.better)

    def _require_sane(self) -> None:
        try:
            sane = sn.evaluate(self._sanity() if callable(self._sanity) else self._sanity)
        except Exception as error:
            raise FomError(f"sanity: {' '.join(str(error).split())}") from None
        if not sane:
            raise FomError("sanity: not passed")

    def _value(self, name: str) -> float | None:
        """None where the performance function yields no number."""
        try:
            return float(self._performance[name].evaluate())
        except Exception:
            return None

    def doubts(self) -> list[str]:
        """What cannot be proven of the check's figures, found with an empty output. Raises FomError

        where the figure does not come from the output at all: it would be the same for every run.
        """
        nothing = Path(os.devnull)
        with _output(self._check, nothing, nothing):
            if self._value(self.figure.name) is not None:
                raise FomError(
                    f"{self.figure.name} does not come from the standard output of a run: it has a"
                    " value where that is empty"
                )
            try:
                self._require_sane()
            except FomError:
                return []
        return [f"answers are not proven right: the sanity of {self._check.name} passes on nothing"]


@contextmanager
def _output(check: rfm.RegressionTest, out: Path, err: Path) -> Any:
    """The check with another run's output as its job's."""
    job = check.job
    before = job._stdout, job._stderr
    job._stdout, job._stderr = str(out), str(err)
    try:
        with osext.change_dir(check.stagedir):
            yield
    finally:
        job._stdout, job._stderr = before


def read_block(reader: OwnReader, run_dir: Path, case: str, logs: Path) -> None:
    """Move a block's unread samples to those of the run, each with its figure of merit."""
    unread = logs / UNREAD
    if not unread.exists():
        return
    store = Store(run_dir, case)
    try:
        notes, fault = [*reader.figure.notes, *reader.doubts()], ""
    except FomError as error:
        notes, fault = reader.figure.notes, str(error)
    for line in unread.read_text().splitlines():
        sample = _SAMPLE.validate_python(json.loads(line))
        store.append(_read(reader, sample, logs, notes, fault))
    unread.unlink()


def _read(reader: OwnReader, sample: Sample, logs: Path, notes: list[str], fault: str) -> Sample:
    figure = reader.figure
    told = replace(
        sample,
        fom_unit=figure.unit,
        fom_better=figure.better,
        notes=[*sample.notes, *notes],
    )
    if sample.outcome != "kept":
        return told
    stem = logs / f"{sample.pair}-{sample.arm}-{sample.attempt}"
    try:
        if fault:
            raise FomError(fault)
        fom = reader.read(stem.with_name(f"{stem.name}.out"), stem.with_name(f"{stem.name}.err"))
    except FomError as error:
        return replace(told, outcome="no_fom", reason=str(error))
    return replace(told, fom=fom.value, fom_extra=fom.extra)
