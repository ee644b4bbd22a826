"""Sections of the report. Each is declared once, by the module of its subject.

A module of `analysis.subjects` lists its sections as `SECTIONS`: when they apply, what their
templates show, their titles in the contents, and their data files. Nothing else names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, TypeVar

import polars as pl

from analysis.report.data import RunData
from analysis.statistics.interval import flat

#: The package of the modules that declare sections, and of their templates.
SUBJECTS = "analysis.subjects"
#: Name of a file next to the page -> its JSON document, or its table.
Files = Mapping[str, Mapping[str, Any] | pl.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Section:
    """What sections of all kinds declare.

    `view` gives what the template shows, as `view`; None if the section does not apply.
    """

    #: Sections of one part of the page are in order of this number.
    place: int
    template: str
    #: Entry in the contents; empty for none.
    title: str = ""
    #: Id on the page, after that of the run; its template has it as `section.id`.
    anchor: str = ""
    #: Data files of all runs of a page; files without rows are left out.
    files: Callable[[Sequence[RunData]], Files] | None = None


@dataclass(frozen=True, kw_only=True)
class MachineSection(Section):
    """A section about all runs of the page, before them; `view` is given them, newest first."""

    view: Callable[[Sequence[RunData]], object | None]


@dataclass(frozen=True, kw_only=True)
class RunSection(Section):
    """A section of a run; `view` is given the run and a prefix for the ids of figures."""

    view: Callable[[RunData, str], object | None]
    #: Before all words, next to the table of all effects, before the cases, or after them.
    part: Literal["lead", "effects", "run", "end"] = "run"
    #: Text of a link below the table of effects; empty for none.
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class CaseSection(Section):
    """A section of a case; `view` is given the run and the name of the case."""

    view: Callable[[RunData, str], object | None]
    #: After the figures of the effects, or after the rejected runs.
    part: Literal["estimates", "end"] = "estimates"


@dataclass(frozen=True)
class Shown:
    """A section that applies, for the template of the page."""

    declared: Section
    id: str
    view: object


AnySection = TypeVar("AnySection", bound=Section)


def sections(kind: type[AnySection]) -> list[AnySection]:
    """All sections of a kind, in the order of the page."""
    return [each for each in _declared() if isinstance(each, kind)]


def data_files(runs: Sequence[RunData]) -> Files:
    """The data files of all sections."""
    return {
        name: data for each in _declared() if each.files for name, data in each.files(runs).items()
    }


@cache
def _declared() -> list[Section]:
    package = import_module(SUBJECTS)
    modules = [import_module(f"{SUBJECTS}.{each.name}") for each in iter_modules(package.__path__)]
    found = [each for module in modules for each in getattr(module, "SECTIONS", ())]
    return sorted(found, key=lambda each: each.place)


def json_rows(
    name: str,
    key: str,
    rows: Callable[[RunData], Sequence[Any]],
    as_dict: Callable[[Any], dict[str, Any]] = flat,
) -> Callable[[Sequence[RunData]], Files]:
    """A JSON file of the rows of all runs, each with `run` and the caveats `emulated`."""

    def files(runs: Sequence[RunData]) -> Files:
        found = [
            {"run": run.header.run, "emulated": run.emulated(), **as_dict(row)}
            for run in runs
            for row in rows(run)
        ]
        return {name: {key: found}} if found else {}

    return files
