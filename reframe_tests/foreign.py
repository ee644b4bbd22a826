"""Checks of others: their own sanity and performance functions, evaluated on every run's output.

Such a check has no record of a workload and no parser. The conductor keeps each run's
output, and when the block has ended the check reads them one by one: for each, the hooks that it
attached to the stages `sanity` and `performance` run as if that run had been the job.
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
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import reframe as rfm
import reframe.utility.osext as osext
import reframe.utility.sanity as sn
from pydantic import TypeAdapter
from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.core.runtime import runtime, valid_sysenv_comb
from reframe.utility import import_module_from_file

from nimc.base import units
from nimc.node.conductor import UNREAD, Store
from nimc.node.readers import Fom, FomError
from nimc.records.chain import file_digest
from nimc.records.notes import Note
from nimc.records.run_folder import stem_of
from nimc.records.sample import Better, Sample

# The figure of merit of a check of others: its unit in SI, and its direction. Pure functions.


_FLOP_PER_SECOND = {"flop/s": 1.0, "kflop/s": 1e3, "Mflop/s": 1e6, "Gflop/s": 1e9, "Tflop/s": 1e12}
#: How units are spelled, and how they are here.
_SPELLINGS = (
    (re.compile(r"\b([munµ]?)(?:seconds?|secs?)\b"), r"\1s"),
    (re.compile(r"\bµs\b"), "us"),
    (re.compile(r"\b([kMGT]i?)?[Bb]ytes?\b"), r"\1B"),
    (re.compile(r"\b([kMGT]?)(?:flops?|FLOPS?|Flops?)/s\b"), r"\1flop/s"),
)
_SUFFIXES = {"s": "_s", "B": "_b", "B/s": "_b_s", "flop/s": "_flop_s"}


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
    """Which direction is better, and where that is from; raises ValueError where nothing says it.

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


def si(unit: str) -> tuple[float, str]:
    """Factor and SI unit of a unit as checks write it; an unknown one stays as it is."""
    for pattern, spelling in _SPELLINGS:
        unit = pattern.sub(spelling, unit)
    for known, name in (
        (units.SECONDS, "s"),
        (units.BYTES_PER_SECOND, "B/s"),
        (units.BYTES, "B"),
        (_FLOP_PER_SECOND, "flop/s"),
    ):
        if unit in known:
            return known[unit], name
    return 1.0, unit


def suffixed(name: str, unit: str) -> str:
    """A name that ends in its SI unit; one whose unit is not known stays as it is."""
    suffix = _SUFFIXES.get(unit, "")
    return name if name.endswith(suffix) else name + suffix


_SAMPLE = TypeAdapter(Sample)
_NOTHING = Path(os.devnull)
#: Characters that mean something to the shell.
_SHELL = re.compile(r"""[$*?~<>|&;()'"`\\{}\[\]]""")
#: Stages whose hooks are a matter of each run.
_BEFORE_SANITY = ("pre_sanity",)
_BEFORE_PERFORMANCE = ("post_sanity", "pre_performance")
#: Where a check may keep its patterns.
_PATTERNS = ("sanity_patterns", "perf_patterns", "perf_variables")
#: What the conductor replaces of how a check is started, and its functions may read.
_START = ("executable", "executable_opts", "num_tasks")
#: Methods of the mixin that a check may have of its own.
_OPEN = {"lay_out", "added_environment", "runs_in"}


def command(launcher: list[str], line: str) -> list[str]:
    """The words that start `line` of a job script; what the shell must read is left to it."""
    if _SHELL.search(line):
        return ["sh", "-c", f"{shlex.join(launcher)} {line}".strip()]
    return [*launcher, *line.split()]


def base_of(cls: type) -> type | None:
    """The base that others have written; None where that is ReFrame's."""
    for base in cls.__mro__[1:]:
        if "_rfm_prefix" in vars(base) and not base.__module__.startswith("reframe."):
            return base
    return None


def load_original(path: str, sha256: str | None = None) -> ModuleType:
    """The module in a file, imported as ReFrame does. Raises ReframeError for another content."""
    if sha256 is not None and file_digest(Path(path)) != sha256:
        raise ReframeError(f"{path}: was changed after this run began; allowed: a new run")
    return import_module_from_file(path, load_parents=True)


def checks_in(module: ModuleType) -> dict[str, type]:
    """Classes of checks by the names that they have in a module."""
    found = ((name, each) for name, each in vars(module).items() if isinstance(each, type))
    return {name: each for name, each in found if issubclass(each, rfm.RegressionTest)}


def origin(cls: type) -> dict[str, str]:
    """For the provenance: file and content of the check that others have written."""
    path = inspect.getfile(base_of(cls) or cls)
    return {"check_file": path, "check_sha256": file_digest(Path(path))}


def require_possible(check: type, ours: tuple[type, ...]) -> None:
    """Raises ReframeError for a check that cannot be a victim; `ours` are the mixin's classes."""
    if issubclass(check, rfm.CompileOnlyRegressionTest):
        raise ReframeError(f"{check.__name__}: runs nothing (a CompileOnlyRegressionTest)")
    names = {
        name
        for cls in ours
        for name, value in vars(cls).items()
        if getattr(value, "__module__", None) == cls.__module__ and not name.startswith("_rfm")
    }
    for cls in check.mro():
        if cls not in ours and (clashing := sorted((names - _OPEN) & set(vars(cls)))):
            raise ReframeError(
                f"{check.__name__}: {cls.__name__}.{clashing[0]}: the mixin has a method of this"
                " name; rename it"
            )


def keep_stated(check: rfm.RegressionTest, mixin: type) -> None:
    """Where a check runs as its subclass states it, whatever a hook of the check has set."""
    (theirs, *_) = (
        cls
        for cls in type(check).__mro__
        if issubclass(cls, rfm.RegressionTest) and not issubclass(cls, mixin)
    )
    for name in ("valid_systems", "valid_prog_environs"):
        stated, before = (cls.var_space[name] for cls in (type(check), theirs))
        if stated.is_defined() and not (before.is_defined() and list(before) == list(stated)):
            setattr(check, name, list(stated))


#: Once, though a check may have many variants.
warn = cache(lambda text: getlogger().warning(text))


def warn_of_no_place(check: rfm.RegressionTest) -> None:
    """Name what keeps a check from running on this system, of which ReFrame says nothing."""
    system = runtime().system
    systems, faults, lines = check.valid_systems, [], []
    if not valid_sysenv_comb(systems, ["*"]):
        faults.append(f"valid_systems {systems} matches no partition")
        lines.append("valid_systems = ['*']")
        systems = ["*"]
    places = valid_sysenv_comb(systems, ["*"])
    known = list(dict.fromkeys(each.name for environs in places.values() for each in environs))
    if not any(valid_sysenv_comb(systems, check.valid_prog_environs).values()):
        faults.append(f"valid_prog_environs {check.valid_prog_environs} matches no environment")
        lines.append(f"valid_prog_environs = {known[:1]}")
    if faults:
        warn(
            f"{type(check).__name__} does not run on {system.name}: {', '.join(faults)}; write in"
            f" the class: {'; '.join(lines)} (environments: {', '.join(known)})"
        )


class OwnReader:
    """Reads runs with the functions of the check that ran them, which ReFrame then leaves alone."""

    def __init__(self, check: rfm.RegressionTest, ours: tuple[type, ...]) -> None:
        self._check = check
        self._patterns: dict[str, Any] = {}
        #: As the check has it.
        self._start: dict[str, Any] = {}
        #: None until it is known: hooks of the check may find it in an output only.
        self.figure: Figure | None = None
        self._hooks = {
            stage: [
                hook.__name__
                for hook in hooks
                if not hasattr(ours[0], hook.__name__) and len(hook._rfm_attach) == 1
            ]
            for stage, hooks in type(check).pipeline_hooks().items()
            if stage in (*_BEFORE_SANITY, *_BEFORE_PERFORMANCE)
        }
        for names in self._hooks.values():
            for name in names:
                check.disable_hook(name)
        own = check._rfm_sanity
        #: None where the check has `sanity_patterns`.
        self._sanity = None if hasattr(ours[0], own.__name__) else own
        # A failure that is expected is one of each run, not of the block.
        check.__rfm_xfail_sanity__ = lambda: (False, "")

    def prove(self) -> None:
        """Refuse before anything runs what cannot be run in pairs, or would be refused afterwards.

        The check's time limit becomes that of each run. Raises ReframeError.
        """
        check = self._check
        if check.container_platform.image:
            raise ReframeError(f"{check.name}.container_platform: containers cannot be measured")
        if check.num_tasks is not None and check.num_tasks < 1:
            raise ReframeError(f"{check.name}.num_tasks: {check.num_tasks} found; allowed: from 1")
        check.num_tasks = check.num_tasks or 1
        if check.time_limit:
            check.run_timeout_s = min(check.run_timeout_s, float(check.time_limit))
            check.time_limit = None
        self._patterns = self._found()
        self._start = {name: getattr(check, name) for name in _START}
        try:
            self.notes()
        except FomError as error:
            raise ReframeError(f"{check.name}: {error}") from None

    def take_patterns(self) -> None:
        """Take from the check what it says of sanity and performance; the block has others."""
        self._patterns = self._found()
        self._set({"perf_variables": {}})
        self._check.require_reference = False

    def _found(self) -> dict[str, Any]:
        found = {name: getattr(self._check, name, None) for name in _PATTERNS}
        return {name: value for name, value in found.items() if value is not None}

    def _set(self, patterns: dict[str, Any]) -> None:
        for name in _PATTERNS:
            if name in patterns:
                value = patterns[name]
                setattr(self._check, name, dict(value) if isinstance(value, dict) else value)
            else:  # ReFrame's variables cannot be deleted as attributes
                vars(self._check).pop(name, None)

    @contextmanager
    def _as_job(self, out: Path, err: Path) -> Iterator[None]:
        """The check as it was written, with a run's output as its job's; as before afterwards."""
        check, job = self._check, self._check.job
        before, outputs = self._found(), (job._stdout, job._stderr)
        started = {name: getattr(check, name) for name in self._start}
        # Relative, since checks also write it after the stage folder's name.
        stage = Path(check.stagedir).resolve()
        job._stdout, job._stderr = (os.path.relpath(path.resolve(), stage) for path in (out, err))
        self._set(self._patterns)
        vars(check).update(self._start)
        try:
            with osext.change_dir(stage):
                yield
        finally:
            job._stdout, job._stderr = outputs
            self._set(before)
            vars(check).update(started)

    def read(self, out: Path, err: Path) -> Fom:
        """The figure of merit of a run, from its output. Raises FomError."""
        with self._as_job(out, err):
            self._require_sane()
            functions = self._performance()
            figure = self._choose(functions)
            value = _number(functions.pop(figure.name), figure.name)
            extra = {}
            for name, function in functions.items():
                factor, unit = si(function.unit)
                with suppress(FomError):
                    number = _number(function, name) * factor
                    if math.isfinite(number):
                        extra[suffixed(name, unit)] = number
        if not 0 < value < float("inf"):
            raise FomError(f"{figure.name} is {value}; a positive number is needed")
        return Fom(value * figure.factor, extra)

    def notes(self) -> list[str]:
        """What cannot be proven of the check's figures, found with an empty output.

        Raises FomError where the figure does not come from the output at all: it would be the
        same for every run. Raises ReframeError where nothing says which figure it is.
        """
        with self._as_job(_NOTHING, _NOTHING):
            try:
                self._require_sane()
                notes = [Note.NOT_VERIFIED(check=self._check.name)]
            except FomError:
                notes = []
            try:
                functions = self._performance()
            except FomError:  # its hooks read the output
                return notes
            name = self._choose(functions).name
            try:
                _number(functions[name], name)
            except FomError:
                return notes
        raise FomError(
            f"{name} does not come from the standard output of a run: it has a value where that is"
            " empty"
        )

    def _run_hooks(self, stages: tuple[str, ...]) -> None:
        for stage in stages:
            for name in self._hooks.get(stage, []):
                getattr(self._check, name)()

    def _require_sane(self) -> None:
        check = self._check
        try:
            self._run_hooks(_BEFORE_SANITY)
            requested = self._sanity() if self._sanity else getattr(check, "sanity_patterns", None)
            sane = requested is None or sn.evaluate(requested)
        except Exception as error:
            raise FomError(f"sanity: {_line(error)}") from None
        if requested is None:
            raise ReframeError(
                f"{check.name}: no sanity function; write class x(their_check, NimcMixin)"
            )
        if not sane:
            raise FomError("sanity: not passed")

    def _performance(self) -> dict[str, Any]:
        """The check's performance functions, as its hooks leave them. Raises FomError."""
        check = self._check
        try:
            self._run_hooks(_BEFORE_PERFORMANCE)
        except Exception as error:
            raise FomError(f"performance: {_line(error)}") from None
        found = dict(check.perf_variables)
        for name, pattern in (getattr(check, "perf_patterns", None) or {}).items():
            unit = (self._reference(name) or (None, None, None, None))[3]
            found[name] = sn.make_performance_function(pattern, unit or "")
        return found

    def _choose(self, functions: dict[str, Any]) -> Figure:
        check, names = self._check, list(functions)
        name = check.figure or next(iter(names), "")
        if name not in names:
            allowed = ", ".join(names) or "none, the check has no performance function"
            raise ReframeError(f"{check.name}.figure: {name!r} found; allowed: {allowed}")
        factor, unit = si(functions[name].unit)
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
        """(value, lower, upper, unit) of a variable on this partition; None where there is none."""
        try:
            found = self._check._resolve_reference()[
                f"{self._check.current_partition.fullname}:{name}"
            ]
        except KeyError:
            return None
        found = getattr(found, "data", found)
        return (*found, None)[:4] if isinstance(found, tuple) else None


def _number(function: Any, name: str) -> float:
    try:
        return float(function.evaluate())
    except Exception as error:
        raise FomError(f"{name}: {_line(error)}") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def read_block(reader: OwnReader, run_dir: Path, case: str, logs: Path) -> None:
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
    samples = [
        _read(reader, _SAMPLE.validate_python(json.loads(line)), logs, notes, fault)
        for line in whole.splitlines()
    ]
    for sample in samples:
        # Every sample of a case has its unit and direction, those without a figure too.
        if of := reader.figure:
            noted = [*sample.notes, of.note]
            sample = replace(sample, fom_unit=of.unit, fom_better=of.better, notes=noted)
        store.append(sample, outputs=filter(Path.exists, _outputs(sample, logs)))
    unread.unlink()


def _read(reader: OwnReader, sample: Sample, logs: Path, notes: list[str], fault: str) -> Sample:
    sample = replace(sample, notes=[*sample.notes, *notes])
    if sample.outcome != "kept":
        return sample
    try:
        if fault:
            raise FomError(fault)
        fom = reader.read(*_outputs(sample, logs))
    except (FomError, ReframeError) as error:
        return replace(sample, outcome="no_fom", reason=str(error))
    return replace(sample, fom=fom.value, fom_extra=fom.extra)


def _outputs(sample: Sample, logs: Path) -> list[Path]:
    """Standard output and error of a run, both of which a check may read."""
    stem = stem_of(sample.pair, sample.arm, sample.attempt)
    return [logs / f"{stem}.out", logs / f"{stem}.err"]
