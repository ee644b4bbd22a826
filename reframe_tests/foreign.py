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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.osext as osext
import reframe.utility.sanity as sn
from pydantic import TypeAdapter
from reframe.core.exceptions import ReframeError

from conductor.conductor import UNREAD
from conductor.readers import FomError
from conductor.store import Store
from records import units
from records.chain import file_digest
from records.notes import Note
from records.run_folder import stem_of
from records.sample import Better, Sample

_SAMPLE = TypeAdapter(Sample)
_NOTHING = Path(os.devnull)
#: Characters that mean something to the shell.
_SHELL = re.compile(r"""[$*?~<>|&;()'"`\\{}\[\]]""")
#: Stages whose hooks read an output: of sanity, and of performance.
_BEFORE_SANITY, _BEFORE_PERFORMANCE = ("pre_sanity",), ("post_sanity", "pre_performance")
#: Where a check may have its patterns.
_PATTERNS = ("sanity_patterns", "perf_patterns", "perf_variables")


@dataclass(frozen=True)
class Figure:
    """The performance variable that stands for a check, in SI units."""

    name: str
    unit: str
    better: Better
    #: What values as the check reports them are multiplied by.
    factor: float
    #: What a reader must know of how it was chosen.
    note: str


def direction(reference: tuple[Any, ...] | None, requested: str, unit: str) -> tuple[Better, str]:
    """Which direction is better, and what says so; raises ValueError if nothing does.

    `reference` is ReFrame's (value, lower, upper): a bound on one side alone tells the direction.
    """
    if requested:
        return ("lower" if requested == "lower" else "higher"), "as asked"
    if reference is not None and (reference[1] is None) != (reference[2] is None):
        return ("lower" if reference[1] is None else "higher"), "by the check's reference"
    if unit == "s":
        return "lower", "by its unit alone"
    if unit.endswith("/s"):
        return "higher", "by its unit alone"
    raise ValueError


def command(launcher: list[str], line: str) -> list[str]:
    """The words that start `line` of a job script; what the shell must read is left to it."""
    if _SHELL.search(line):
        return ["sh", "-c", f"{shlex.join(launcher)} {line}".strip()]
    return [*launcher, *line.split()]


def base_of(cls: type) -> type | None:
    """The base that others have written; None if that is ReFrame's."""
    for base in cls.__mro__[1:]:
        if "_rfm_prefix" in vars(base) and not base.__module__.startswith("reframe."):
            return base
    return None


def origin(cls: type) -> dict[str, str]:
    """For the provenance: file and content of the check that others have written."""
    path = inspect.getfile(base_of(cls) or cls)
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
        # None if the check has `sanity_patterns`.
        functions = (vars(cls).get("_rfm_sanity") for cls in type(check).__mro__)
        ours = (None, vars(mixin)["_rfm_sanity"])
        self._sanity = next((function for function in functions if function not in ours), None)
        self._hooks = {
            stage: [
                hook.__name__
                for hook in type(check).pipeline_hooks().get(stage, [])
                if not hasattr(mixin, hook.__name__)
            ]
            for stage in (*_BEFORE_SANITY, *_BEFORE_PERFORMANCE)
        }
        self._as_written = dict(vars(check))
        try:
            self.notes()
        except FomError as error:
            raise ReframeError(f"{check.name}: {error}") from None
        self._take_over()

    def _take_over(self) -> None:
        """Leave ReFrame nothing of the check to evaluate once, after the block."""
        check = self._check
        for name in (name for names in self._hooks.values() for name in names):
            check.disable_hook(name)
        for name in _PATTERNS:  # ReFrame's variables cannot be deleted as attributes
            vars(check).pop(name, None)
        check.perf_variables = {}
        check.require_reference = False
        # A failure that is expected is one of each run, not of the block.
        check.__rfm_xfail_sanity__ = lambda: (False, "")
        if check.time_limit:  # that of each run
            check.run_timeout_s = min(check.run_timeout_s, float(check.time_limit))
            check.time_limit = None

    @contextmanager
    def _as_job(self, out: Path, err: Path) -> Iterator[None]:
        """The check as it was written, with a run's output as its job's; as before afterwards."""
        check, job = self._check, self._check.job
        before, outputs = dict(vars(check)), (job._stdout, job._stderr)
        # Relative, since checks also write it after the stage folder's name.
        stage = Path(check.stagedir).resolve()
        job._stdout, job._stderr = (os.path.relpath(path.resolve(), stage) for path in (out, err))
        vars(check).clear()
        vars(check).update(self._as_written)
        check.perf_variables = dict(check.perf_variables)
        try:
            with osext.change_dir(stage):
                yield
        finally:
            job._stdout, job._stderr = outputs
            vars(check).clear()
            vars(check).update(before)

    def read(self, out: Path, err: Path) -> float:
        """The figure of merit of a run, SI, from its output. Raises FomError."""
        with self._as_job(out, err):
            self._require_sane()
            figure, value = self._evaluated()
        if not 0 < value < math.inf:
            raise FomError(f"{figure.name} is {value}; a positive number is needed")
        return value * figure.factor

    def notes(self) -> list[str]:
        """What cannot be proven of the check's figures, shown by an empty output.

        Raises FomError if the figure does not come from the output at all: it would be the same for
        every run. Raises ReframeError if nothing says which figure it is.
        """
        with self._as_job(_NOTHING, _NOTHING):
            notes = []
            with suppress(FomError):
                self._require_sane()
                notes = [Note.NOT_VERIFIED(check=self._check.name)]
            try:
                figure, _ = self._evaluated()
            except FomError:
                return notes
        raise FomError(
            f"{figure.name} does not come from the standard output of a run: it has a value where"
            " that is empty"
        )

    def _run_hooks(self, stages: tuple[str, ...]) -> None:
        for stage in stages:
            for name in self._hooks[stage]:
                getattr(self._check, name)()

    def _require_sane(self) -> None:
        check, function = self._check, self._sanity
        with _faults_of("sanity"):
            self._run_hooks(_BEFORE_SANITY)
            requested = function(check) if function else getattr(check, "sanity_patterns", None)
            sane = requested is None or sn.evaluate(requested)
        if requested is None:
            raise ReframeError(f"{check.name}: no sanity function; allowed: one of its own")
        if not sane:
            raise FomError("sanity: not passed")

    def _evaluated(self) -> tuple[Figure, float]:
        """The figure, and its value in the check's unit. Raises FomError."""
        functions = self._performance()
        figure = self._choose(functions)
        with _faults_of(figure.name):
            value = float(functions[figure.name].evaluate())
        return figure, value

    def _performance(self) -> dict[str, Any]:
        """The check's performance functions, as its hooks leave them. Raises FomError."""
        check = self._check
        with _faults_of("performance"):  # hooks may read the output
            self._run_hooks(_BEFORE_PERFORMANCE)
        functions = dict(check.perf_variables)
        for name, pattern in (getattr(check, "perf_patterns", None) or {}).items():
            unit = (self._reference(name) or (None, None, None, None))[3]
            functions[name] = sn.make_performance_function(pattern, unit or "")
        return functions

    def _choose(self, functions: dict[str, Any]) -> Figure:
        check, names = self._check, list(functions)
        name = check.figure or next(iter(names), "")
        if name not in names:
            allowed = ", ".join(names) or "none, the check has no performance function"
            raise ReframeError(f"{check.name}.figure: {name!r} found; allowed: {allowed}")
        factor, unit = units.si(functions[name].unit)
        try:
            better, source = direction(self._reference(name), check.better, unit)
        except ValueError:
            raise ReframeError(
                f"{check.name}.better: whether {name} in {unit!r} is better lower or higher is not"
                " known; allowed: lower, higher"
            ) from None
        note = f"figure of merit: {name} of check {check.name}, {better} is better ({source})"
        if len(names) > 1 and not check.figure:
            note += f"; the first of {len(names)}"
        self.figure = Figure(name, unit, better, factor, note)
        return self.figure

    def _reference(self, name: str) -> tuple[Any, ...] | None:
        """(value, lower, upper, unit) of a variable on this partition; None if there is none."""
        try:
            reference = self._check._resolve_reference()[
                f"{self._check.current_partition.fullname}:{name}"
            ]
        except KeyError:
            return None
        reference = getattr(reference, "data", reference)
        return (*reference, None)[:4] if isinstance(reference, tuple) else None


@contextmanager
def _faults_of(what: str) -> Iterator[None]:
    """Whatever fails in functions of a check is one line of a FomError."""
    try:
        yield
    except Exception as error:
        raise FomError(f"{what}: {' '.join(str(error).split())}") from None


def read_block(reader: OutputReader, run_dir: Path, case: str, logs: Path) -> None:
    """Move a block's unread samples to those of the run, each with its figure of merit."""
    unread = logs / UNREAD
    if not unread.exists():
        return
    store = Store(run_dir, case)
    try:
        notes, fault = reader.notes(), ""
    except (FomError, ReframeError) as error:
        notes, fault = [], str(error)
    whole, _, _ = unread.read_text().rpartition("\n")  # a crash leaves a part of a line
    samples = []
    for line in whole.splitlines():
        sample = _SAMPLE.validate_python(json.loads(line))
        sample = replace(sample, notes=[*sample.notes, *notes])
        stem = stem_of(sample.pair, sample.arm, sample.attempt)
        outputs = logs / f"{stem}.out", logs / f"{stem}.err"
        if sample.outcome == "kept":
            try:
                if fault:
                    raise FomError(fault)
                sample = replace(sample, fom=reader.read(*outputs))
            except (FomError, ReframeError) as error:
                sample = replace(sample, outcome="no_fom", reason=str(error))
        samples.append((sample, outputs))
    for sample, outputs in samples:
        # Every sample of a case has its unit and direction, those without a figure too.
        if of := reader.figure:
            noted = [*sample.notes, of.note]
            sample = replace(sample, fom_unit=of.unit, fom_better=of.better, notes=noted)
        store.append(sample, outputs=filter(Path.exists, outputs))
    unread.unlink()
