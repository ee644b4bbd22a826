"""A check of others in pairs: `class mine(their_check, NimcMixin)` (docs/extend.md#your-own-check).

Such a check has no record of a workload and no parser. The conductor stores each run's output.
When the block has ended, the check's own sanity and performance functions, and the hooks that it
attached to these stages, read one output after the other, as if that run had been the job.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import reframe as rfm
import reframe.utility.osext as osext
import reframe.utility.sanity as sn
from pydantic import TypeAdapter
from reframe.core.exceptions import ReframeError

from conductor.block.readers import FomError
from conductor.block.store import Store
from records import units
from records.block_plan import UNREAD_FILE
from records.chain import file_digest
from records.notes import Note
from records.run_folder import log_stem
from records.sample import Better, Sample, upgraded
from reframe_tests import internals

_SAMPLE = TypeAdapter(Sample)
_NOTHING = Path(os.devnull)
#: Characters that mean something to the shell.
_SHELL = re.compile(r"""[$*?~<>|&;()'"`\\{}\[\]]""")
#: Stages whose hooks read an output.
_READING = ("pre_sanity", "post_sanity", "pre_performance")


class Figure(NamedTuple):
    """The performance variable that stands for a check: its SI unit, and how it was chosen."""

    name: str
    unit: str
    better: Better
    note: str


def better_direction(
    requested: str, lower: float | None, upper: float | None, unit: str
) -> tuple[Better, str] | None:
    """Return which direction is better, and what says so; None if nothing does.

    `lower`, `upper`: of ReFrame's reference, where a bound on one side alone tells the direction.
    """
    if requested:
        return ("lower" if requested == "lower" else "higher"), "as asked"
    if (lower is None) != (upper is None):
        return ("lower" if lower is None else "higher"), "by the check's reference"
    if unit == "s":
        return "lower", "by its unit alone"
    return ("higher", "by its unit alone") if unit.endswith("/s") else None


def launch_words(launcher: list[str], line: str) -> list[str]:
    """The words that start `line` of a job script; what the shell must read is left to it."""
    if _SHELL.search(line):
        return ["sh", "-c", f"{shlex.join(launcher)} {line}".strip()]
    return [*launcher, *line.split()]


def third_party_base(cls: type) -> type | None:
    """The base that others have written; None if that is ReFrame's."""
    for base in cls.__mro__[1:]:
        if issubclass(base, rfm.RegressionTest) and not base.__module__.startswith("reframe."):
            return base
    return None


def check_provenance(cls: type) -> dict[str, str]:
    """For the provenance: file and content of the check that others have written."""
    path = inspect.getfile(third_party_base(cls) or cls)
    return {"check_file": path, "check_sha256": file_digest(Path(path))}


class OutputReader:
    """Reads runs with the functions of the check that ran them, which ReFrame then leaves alone.

    Made when all hooks before the run have run: the check as it is then reads the outputs.
    """

    def __init__(self, check: rfm.RegressionTest, mixin: type) -> None:
        if check.container_platform.image:
            raise ReframeError(f"{check.name}.container_platform: containers cannot be measured")
        if check.num_tasks is not None and check.num_tasks < 1:
            raise ReframeError(f"{check.name}.num_tasks: {check.num_tasks} found; allowed: from 1")
        check.num_tasks = check.num_tasks or 1
        self._check = check
        #: None until it is known: hooks of the check may find it in an output only.
        self.figure: Figure | None = None
        self._hooks = [
            (stage, hook.__name__)
            for stage in _READING
            for hook in type(check).pipeline_hooks().get(stage, [])
            if not hasattr(mixin, hook.__name__)
        ]
        self._as_written = dict(vars(check))
        try:
            self.notes()
        except FomError as error:
            raise ReframeError(f"{check.name}: {error}") from None
        self._take_over()

    def _take_over(self) -> None:
        """Leave ReFrame nothing of the check to evaluate once, after the block."""
        check = self._check
        for _, name in self._hooks:
            check.disable_hook(name)
        for name in ("sanity_patterns", "perf_patterns"):  # variables cannot be deleted otherwise
            vars(check).pop(name, None)
        check.perf_variables = {}
        check.require_reference = False
        # A failure that is expected is one of each run, not of the block.
        rfm.xfail("", lambda _: False)(type(check))
        if check.time_limit:  # that of each run
            check.run_timeout_s = min(check.run_timeout_s, float(check.time_limit))
            check.time_limit = None

    @contextmanager
    def _as_job(self, out: Path, err: Path) -> Iterator[None]:
        """The check as it was written, with a run's output as its job's; as before afterwards."""
        check, job = self._check, self._check.job
        before = dict(vars(check))
        # Relative, since checks also write it after the stage folder's name.
        stage = Path(check.stagedir).resolve()
        outputs = (os.path.relpath(path.resolve(), stage) for path in (out, err))
        vars(check).clear()
        vars(check).update(self._as_written)
        check.perf_variables = dict(check.perf_variables)
        try:
            with osext.change_dir(stage), internals.outputs_of_job(job, *outputs):
                yield
        finally:
            vars(check).clear()
            vars(check).update(before)

    def completed(self, sample: Sample, out: Path, err: Path) -> Sample:
        """The sample of an accepted run with its figure of merit, or with why it has none."""
        try:
            sample = replace(sample, notes=[*sample.notes, *self.notes()])
            with self._as_job(out, err):
                self._require_sane()
                return replace(sample, fom=self._figure_of_merit())
        except (FomError, ReframeError) as error:
            return replace(sample, outcome="no_fom", reason=str(error))

    def notes(self) -> list[str]:
        """Return what cannot be proven of the check's figures, shown by an empty output.

        Raises FomError if the figure does not come from the output at all: it would be the same for
        every run. Raises ReframeError if nothing says which figure it is.
        """
        notes = []
        with self._as_job(_NOTHING, _NOTHING):
            with suppress(FomError):
                self._require_sane()
                notes = [Note.NOT_VERIFIED(check=self._check.name)]
            try:
                self._figure_of_merit()
            except FomError:
                return notes
        name = self.figure.name if self.figure else ""
        raise FomError(
            f"{name} does not come from the standard output of a run: it has a value where that is"
            " empty"
        )

    def _run_hooks(self, *stages: str) -> None:
        for stage, name in self._hooks:
            if stage in stages:
                getattr(self._check, name)()

    def _require_sane(self) -> None:
        with _faults_of("sanity"):
            self._run_hooks("pre_sanity")
            check, function = self._check, internals.sanity_function(self._check)
            if not sn.evaluate(function(check) if function else check.sanity_patterns):
                raise ReframeError("not passed")

    def _figure_of_merit(self) -> float:
        """Its value, SI. Raises FomError; ReframeError if nothing says which figure it is."""
        check = self._check
        with _faults_of("performance"):  # hooks may read the output
            self._run_hooks("post_sanity", "pre_performance")
        functions = {**(getattr(check, "perf_patterns", None) or {}), **check.perf_variables}
        name = check.figure or next(iter(functions), "")
        if name not in functions:
            allowed = ", ".join(functions) or "none, the check has no performance function"
            raise ReframeError(f"{check.name}.figure: {name!r} found; allowed: {allowed}")
        _, lower, upper, unit = internals.reference(check, name)
        factor, unit = units.si_factor(getattr(functions[name], "unit", unit) or "")
        better = better_direction(check.better, lower, upper, unit)
        if better is None:
            raise ReframeError(
                f"{check.name}.better: whether {name} in {unit!r} is better lower or higher is not"
                " known; allowed: lower, higher"
            )
        note = f"figure of merit: {name} of check {check.name}, {better[0]} is better ({better[1]})"
        if len(functions) > 1 and not check.figure:
            note += f"; the first of {len(functions)}"
        self.figure = Figure(name, unit, better[0], note)
        with _faults_of(name):
            value = float(sn.evaluate(functions[name]))
        if not 0 < value < math.inf:
            raise FomError(f"{name} is {value}; a positive number is needed")
        return value * factor


@contextmanager
def _faults_of(name: str) -> Iterator[None]:
    """Whatever fails in functions of a check is one line of a FomError."""
    try:
        yield
    except Exception as error:
        raise FomError(f"{name}: {' '.join(str(error).split())}") from None


def move_unread_samples(reader: OutputReader, run_dir: Path, case: str, logs: Path) -> None:
    """Move a block's unread samples to those of the run, each with its figure of merit.

    Those that were moved before a reading was killed are not moved again.
    """
    unread = logs / UNREAD_FILE
    if not unread.exists():
        return
    whole, _, _ = unread.read_text().rpartition("\n")  # a crash leaves a part of a line
    store = Store(run_dir, case)
    moved = store.keys()
    samples = []
    for line in whole.splitlines():
        sample = _SAMPLE.validate_python(upgraded(json.loads(line)))
        if sample.key in moved:
            continue
        stem = log_stem(sample.pair, sample.arm, sample.attempt)
        outputs = logs / f"{stem}.out", logs / f"{stem}.err"
        accepted = sample.outcome == "accepted"
        samples.append((reader.completed(sample, *outputs) if accepted else sample, outputs))
    for sample, outputs in samples:
        # Every sample of a case has its unit and direction, those without a figure too.
        if figure := reader.figure:
            noted = [*sample.notes, figure.note]
            sample = replace(sample, fom_unit=figure.unit, fom_better=figure.better, notes=noted)
        store.append(sample, outputs=filter(Path.exists, outputs))
    unread.unlink()
