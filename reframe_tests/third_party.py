"""Third-party checks: `class mine(their_check, NimcMixin)` (docs/extend.md#your-own-check).

Such a check has no record of a workload and no parser. The conductor stores the output of each run.
After the block, the check's sanity and performance functions, and its hooks at these stages, read
one output after the other, as if that run had been the job.
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
from typing import Any, Literal, NamedTuple

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
_EMPTY_OUTPUT = Path(os.devnull)
#: A character that a shell interprets.
_SHELL_CHARACTER = re.compile(r"""[$*?~<>|&;()'"`\\{}\[\]]""")
#: Prefix of the names of modules whose classes are not third-party.
_OWN_MODULES = "reframe_tests."
#: Stages of ReFrame whose hooks read an output.
_READING_STAGES = ("pre_sanity", "post_sanity", "pre_performance")


class Figure(NamedTuple):
    """The performance variable that is a check's figure of merit.

    `unit` is in SI; `note` says how the variable was chosen.
    """

    name: str
    unit: str
    better: Better
    note: str


def better_direction(
    requested: Better | Literal[""], lower: float | None, upper: float | None, unit: str
) -> tuple[Better, str] | None:
    """Return whether lower or higher is better, and the source of this; None if there is none.

    `lower` and `upper` are the bounds of ReFrame's reference. A single bound shows the direction.
    """
    if requested:
        return requested, "as requested"
    if lower is None and upper is not None:
        return "lower", "by the check's reference"
    if lower is not None and upper is None:
        return "higher", "by the check's reference"
    if unit == "s":
        return "lower", "by its unit alone"
    if unit.endswith("/s"):
        return "higher", "by its unit alone"
    return None


def launch_words(launcher: list[str], line: str) -> list[str]:
    """Return the words that start a line of a job script, with a shell if the line needs one."""
    if _SHELL_CHARACTER.search(line):
        return ["sh", "-c", f"{shlex.join(launcher)} {line}".strip()]
    return [*launcher, *line.split()]


def third_party_base(cls: type) -> type | None:
    """Return the first base class that is a check and not ReFrame's; None if there is none."""
    for base in cls.__mro__[1:]:
        if issubclass(base, rfm.RegressionTest) and not base.__module__.startswith("reframe."):
            return base
    return None


def shared_methods(base: type, mixin: type) -> list[str]:
    """Return the names of methods that a third-party check and the mixin both define."""
    mixin_methods: set[str] = set()
    check_attributes: set[str] = set()
    for cls in mixin.__mro__:
        if cls.__module__.startswith(_OWN_MODULES):
            mixin_methods |= {name for name, value in vars(cls).items() if callable(value)}
    for cls in base.__mro__:
        if not issubclass(cls, mixin) and not cls.__module__.startswith(("reframe.", _OWN_MODULES)):
            check_attributes |= set(vars(cls))
    shared_names = mixin_methods & check_attributes
    added_by_python_or_reframe = ("__", internals.ATTRIBUTE_PREFIX)
    return sorted(name for name in shared_names if not name.startswith(added_by_python_or_reframe))


def require_readable(check: rfm.RegressionTest, mixin: type) -> None:
    """Raise ReframeError if a check surely cannot read the output of a run.

    A check with hooks of its own may still get its functions from one of them. Then `OutputReader`
    finds out whether it has them.
    """
    if isinstance(check, rfm.CompileOnlyRegressionTest):
        raise ReframeError(f"{check.name}: runs nothing (a CompileOnlyRegressionTest)")
    hooks = [hook for hooks in type(check).pipeline_hooks().values() for hook in hooks]
    if all(hasattr(mixin, hook.__name__) for hook in hooks):
        _require_sanity_function(check)
        _performance_functions(check)


def _require_sanity_function(check: rfm.RegressionTest) -> None:
    if internals.sanity_function(check) is None and not hasattr(check, "sanity_patterns"):
        raise ReframeError(f"{check.name}: has no sanity function; allowed: one")


def _performance_functions(check: rfm.RegressionTest) -> dict[str, Any]:
    """Return figure -> performance function of a check. Raises ReframeError if it has none."""
    functions = {**(getattr(check, "perf_patterns", None) or {}), **check.perf_variables}
    if not functions:
        raise ReframeError(f"{check.name}: has no performance function; allowed: at least one")
    return functions


def check_provenance(cls: type) -> dict[str, str]:
    """Return path and SHA-256 of a third-party check's file, for the provenance."""
    path = inspect.getfile(third_party_base(cls) or cls)
    return {"check_file": path, "check_sha256": file_digest(Path(path))}


class OutputReader:
    """Reads the outputs of runs with the functions of their check.

    A reader is made after all hooks before the run, and remembers the state of the check. ReFrame
    itself no longer evaluates the check after the block.
    """

    def __init__(self, check: rfm.RegressionTest, mixin: type) -> None:
        if check.container_platform.image:
            raise ReframeError(f"{check.name}.container_platform: containers cannot be measured")
        if check.num_tasks is not None and check.num_tasks < 1:
            raise ReframeError(f"{check.name}.num_tasks: {check.num_tasks} found; allowed: from 1")
        check.num_tasks = check.num_tasks or 1
        self._check = check
        #: None until the figure is known, since the check's hooks may choose it from an output.
        self.figure: Figure | None = None
        self._hooks = [
            (stage, hook.__name__)
            for stage in _READING_STAGES
            for hook in type(check).pipeline_hooks().get(stage, [])
            if not hasattr(mixin, hook.__name__)
        ]
        self._remembered_attributes = dict(vars(check))
        try:
            self.verification_notes()
        except FomError as error:
            raise ReframeError(f"{check.name}: {error}") from None
        self._take_over()

    def _take_over(self) -> None:
        """Keep ReFrame from evaluating the check itself after the block."""
        check = self._check
        for _, name in self._hooks:
            check.disable_hook(name)
        for name in ("sanity_patterns", "perf_patterns"):  # variables cannot be deleted otherwise
            vars(check).pop(name, None)
        check.perf_variables = {}
        check.require_reference = False
        # A failure that the check expects (`xfail`) is expected of each run, not of the block.
        rfm.xfail("", lambda _: False)(type(check))
        if check.time_limit:  # limits each run instead of the job
            check.run_timeout_s = min(check.run_timeout_s, float(check.time_limit))
            check.time_limit = None

    @contextmanager
    def _as_job(self, out: Path, err: Path) -> Iterator[None]:
        """Within this context, the check has the remembered state, and its job a run's output."""
        check, job = self._check, self._check.job
        before = dict(vars(check))
        stage = Path(check.stagedir).resolve()
        # Relative paths, since some checks join them to the stage folder.
        outputs = (os.path.relpath(path.resolve(), stage) for path in (out, err))
        vars(check).clear()
        vars(check).update(self._remembered_attributes)
        check.perf_variables = dict(check.perf_variables)
        try:
            with osext.change_dir(stage), internals.outputs_of_job(job, *outputs):
                yield
        finally:
            vars(check).clear()
            vars(check).update(before)

    def with_figure(self, sample: Sample, out: Path, err: Path) -> Sample:
        """Return the sample of an accepted run with its figure, or with why it has no figure."""
        try:
            sample = replace(sample, notes=[*sample.notes, *self.verification_notes()])
            with self._as_job(out, err):
                self._require_sane()
                return replace(sample, fom=self._figure_of_merit())
        except (FomError, ReframeError) as error:
            return replace(sample, outcome="no_fom", reason=str(error))

    def verification_notes(self) -> list[str]:
        """Return a note if the check accepts an empty output, and so does not verify its figures.

        Raises FomError if an empty output has a figure, since every run would have the same figure.
        Raises ReframeError if the check has no sanity function, or if it is not known which figure
        is the figure of merit.
        """
        notes = []
        with self._as_job(_EMPTY_OUTPUT, _EMPTY_OUTPUT):
            with suppress(FomError):
                self._require_sane()
                notes = [Note.NOT_VERIFIED(check=self._check.name)]
            try:
                self._figure_of_merit()
            except FomError:
                return notes
        name = self.figure.name if self.figure else ""
        raise FomError(
            f"{name} does not come from the standard output of a run: it has a value even if the"
            " output is empty"
        )

    def _run_hooks(self, *stages: str) -> None:
        for stage, name in self._hooks:
            if stage in stages:
                getattr(self._check, name)()

    def _require_sane(self) -> None:
        check, function = self._check, internals.sanity_function(self._check)
        with _fom_errors("sanity"):
            self._run_hooks("pre_sanity")
        _require_sanity_function(check)
        with _fom_errors("sanity"):
            if not sn.evaluate(function(check) if function else check.sanity_patterns):
                raise ReframeError("not passed")

    def _figure_of_merit(self) -> float:
        """Return the figure of merit in SI units.

        Raises FomError, or ReframeError if the figure or its better direction is not known.
        """
        check = self._check
        with _fom_errors("performance"):  # hooks may read the output
            self._run_hooks("post_sanity", "pre_performance")
        functions = _performance_functions(check)
        name = check.figure or next(iter(functions))
        if name not in functions:
            raise ReframeError(
                f"{check.name}.figure: {name!r} found; allowed: {', '.join(functions)}"
            )
        _, lower, upper, unit = internals.reference(check, name)
        factor, unit = units.si_factor(getattr(functions[name], "unit", unit) or "")
        direction_and_source = better_direction(check.better, lower, upper, unit)
        if direction_and_source is None:
            raise ReframeError(
                f"{check.name}.better: nothing says whether a lower or a higher {name} in {unit!r}"
                " is better; allowed: lower, higher"
            )
        direction, source = direction_and_source
        note = f"figure of merit: {name} of check {check.name}, {direction} is better ({source})"
        if len(functions) > 1 and not check.figure:
            note += f"; the first of {len(functions)}"
        self.figure = Figure(name, unit, direction, note)
        with _fom_errors(name):
            value = float(sn.evaluate(functions[name]))
        if not 0 < value < math.inf:
            raise FomError(f"{name} is {value}; a positive number is needed")
        return value * factor


@contextmanager
def _fom_errors(name: str) -> Iterator[None]:
    """Turn any exception of a check's functions into a FomError of one line."""
    try:
        yield
    except Exception as error:
        raise FomError(f"{name}: {' '.join(str(error).split())}") from None


def move_unread_samples(reader: OutputReader, run_dir: Path, case: str, logs: Path) -> None:
    """Move a block's unread samples to the run's samples, each with its figure of merit.

    Samples that an earlier call moved before it was killed are not moved again.
    """
    unread_file = logs / UNREAD_FILE
    if not unread_file.exists():
        return
    # A crash may leave an incomplete last line.
    complete_lines, _, _ = unread_file.read_text().rpartition("\n")
    store = Store(run_dir, case)
    moved_keys = store.keys()
    read_samples = []
    for line in complete_lines.splitlines():
        sample = _SAMPLE.validate_python(upgraded(json.loads(line)))
        if sample.key in moved_keys:
            continue
        stem = log_stem(sample.pair, sample.arm, sample.attempt)
        out, err = logs / f"{stem}.out", logs / f"{stem}.err"
        if sample.outcome == "accepted":
            sample = reader.with_figure(sample, out, err)
        read_samples.append((sample, (out, err)))
    for sample, outputs in read_samples:
        # Samples without a figure also get the unit and the direction of the case.
        if figure := reader.figure:
            notes = [*sample.notes, figure.note]
            sample = replace(sample, fom_unit=figure.unit, fom_better=figure.better, notes=notes)
        store.append(sample, outputs=filter(Path.exists, outputs))
    unread_file.unlink()
